"""The two signed repositories: the vendor's (stand-ins) and Debian's (what the base needs)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths
from tests.lab.shell import Progress, timed
from tests.lab.supply.aptrepo import publish
from tests.lab.supply.debian_mirror import PACKAGES, Pool, ensure_pool, pool_of
from tests.lab.supply.gpg import signing_key
from tests.lab.supply.packages import VERSIONS, build

KEY, OTHER_KEY = "vendor", "other"
VENDOR_LABEL = "b200kit lab vendor"
_SOURCES = (
    *("supply/deb.", "supply/packages", "supply/module_build"),
    *("hardware/shim_build", "shim", "vendor"),
)


def ensure_repositories(lab: LabPaths, progress: Progress) -> dict[str, Any]:
    """Make both repositories unless they are there, as they should be for every lab.

    Returns the mirror's key as data. The caller holds the lock of what labs share.
    """
    publish_debian(lab, pool_of(lab, "debian", PACKAGES), progress)
    with signing_key(lab.gnupg, KEY) as key:
        lab.mirror_key.write_text(key.armored(), encoding="utf-8")
        fingerprint = key.fingerprint
    if not _vendor(lab).is_dir():
        what = "mirror: building and signing the vendor's stand-in packages"
        with timed(progress, what), signing_key(lab.gnupg, KEY) as key:
            publish(_vendor(lab), _vendor_packages(lab, VERSIONS), key, VENDOR_LABEL)
    return {"apt_key": str(lab.mirror_key), "apt_fingerprint": fingerprint}


def publish_debian(lab: LabPaths, pool: Pool, progress: Progress) -> None:
    """Publish a pool of Debian's packages as apt/NAME of this lab, made once for all labs."""
    fetched = ensure_pool(lab, pool, progress)
    shared = lab.mirror / "apt" / f"{pool.name}-{pool.stamp}"
    if not shared.is_dir():
        with signing_key(lab.gnupg, KEY) as key:
            publish(shared, sorted(fetched.glob("*.deb")), key, "b200kit lab Debian")
    serve(lab, pool.name, shared)


def publish_vendor(
    lab: LabPaths,
    versions: Sequence[str] = tuple(VERSIONS),
    leave_out: Collection[str] = (),
    key_name: str = KEY,
) -> None:
    """Publish the vendor's stand-in packages in this lab; the defaults put things right.

    Also then it is published again, with the date of today: apt ignores a Release file that is
    older than the one it has.
    """
    own = lab.own / "apt" / f"vendor-{_vendor_stamp(versions, leave_out, key_name)}"
    with signing_key(lab.gnupg, key_name) as key:
        publish(own, _vendor_packages(lab, versions), key, VENDOR_LABEL, leave_out)
    serve(lab, "vendor", own)


def ensure_vendor(lab: LabPaths) -> None:
    """Let the lab serve the vendor's packages as they should be, unless it does."""
    served = lab.documents / "apt" / "vendor"
    if not served.is_symlink():
        serve(lab, "vendor", _vendor(lab))
    elif served.readlink().name != _vendor(lab).name:
        publish_vendor(lab)


def serve(lab: LabPaths, name: str, repository: Path) -> None:
    """Let the lab's mirror serve a finished repository as apt/NAME, in one step."""
    link = lab.documents / "apt" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f"{name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(repository)
    os.replace(fresh, link)


def _vendor(lab: LabPaths) -> Path:
    """The vendor's repository as it should be, which all labs of these sources share."""
    return lab.mirror / "apt" / f"vendor-{_vendor_stamp(VERSIONS, (), KEY)}"


def _vendor_packages(lab: LabPaths, versions: Sequence[str]) -> list[Path]:
    """The vendor's stand-in packages, built the first time."""
    built = lab.cache / f"vendor-{_vendor_stamp(versions, (), KEY)}"
    if not (built / "complete").is_file():
        remove_tree(built)
        built.mkdir(parents=True)
        build(built, list(versions))
        (built / "complete").touch()
    return sorted(built.glob("**/*.deb"))


def _vendor_stamp(versions: Sequence[str], leave_out: Collection[str], key_name: str) -> str:
    """Return a hash of the packages' sources and of how they are published."""
    here = Path(__file__).parents[1]
    sources = [path for name in _SOURCES for path in here.glob(f"{name}*")]
    files = sorted(
        file for path in sources for file in ([path] if path.is_file() else path.rglob("*"))
    )
    digest = hashlib.sha256(json.dumps([*versions, *sorted(leave_out), key_name]).encode())
    for file in files:
        if file.is_file() and file.suffix != ".pyc":
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]
