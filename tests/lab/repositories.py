"""The two signed repositories: the vendor's (stand-ins) and Debian's (what the base lacks)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tests.lab.aptrepo import publish
from tests.lab.debian_mirror import debian_stamp, ensure_debian_packages
from tests.lab.gpg import signing_key
from tests.lab.mounts import remove_tree
from tests.lab.packages import VERSIONS, build
from tests.lab.paths import LabPaths
from tests.lab.shell import Progress, timed

KEY, OTHER_KEY = "vendor", "other"
_SOURCES = ("deb.", "packages", "shim", "module_build", "vendor")


def ensure_repositories(lab: LabPaths, progress: Progress) -> dict[str, Any]:
    """Publish both repositories unless they are there; return the mirror's key as data."""
    debian = ensure_debian_packages(lab, progress)
    publish_debian(lab, "debian", debian, debian_stamp())
    with signing_key(lab.gnupg, KEY) as key:
        armored = lab.root / "mirror-key.asc"
        armored.write_text(key.armored(), encoding="utf-8")
        fingerprint = key.fingerprint
    if _published(lab.mirror / "apt" / "vendor") != _vendor_stamp(VERSIONS, (), KEY):
        with timed(progress, "mirror: building and signing the vendor's stand-in packages"):
            publish_vendor(lab)
    return {"apt_key": str(armored), "apt_fingerprint": fingerprint}


def publish_debian(lab: LabPaths, name: str, pool: Path, stamp: str) -> None:
    """Publish a pool of Debian's packages as apt/NAME, unless the one with this stamp is there."""
    repository = lab.mirror / "apt" / name
    repository.parent.mkdir(parents=True, exist_ok=True)
    if _published(repository) != stamp:
        with signing_key(lab.gnupg, KEY) as key:
            publish(repository, sorted(pool.glob("*.deb")), key, "b200kit lab Debian")
        _mark(repository, stamp)


def publish_vendor(
    lab: LabPaths,
    versions: Sequence[str] = tuple(VERSIONS),
    leave_out: Collection[str] = (),
    key_name: str = KEY,
) -> None:
    """Build the vendor's stand-in packages and publish them; the defaults put things right."""
    stamp = _vendor_stamp(versions, (), KEY)
    built = lab.cache / f"vendor-{stamp}"
    if not (built / "complete").is_file():
        remove_tree(built)
        built.mkdir(parents=True)
        build(built, list(versions))
        (built / "complete").touch()
    repository = lab.mirror / "apt" / "vendor"
    with signing_key(lab.gnupg, key_name) as key:
        publish(repository, sorted(built.glob("**/*.deb")), key, "b200kit lab vendor", leave_out)
    _mark(repository, _vendor_stamp(versions, leave_out, key_name))


def _vendor_stamp(versions: Sequence[str], leave_out: Collection[str], key_name: str) -> str:
    """Return a hash of the packages' sources and of how they are published."""
    here = Path(__file__).parent
    sources = [path for name in _SOURCES for path in here.glob(f"{name}*")]
    files = sorted(
        file for path in sources for file in ([path] if path.is_file() else path.rglob("*"))
    )
    digest = hashlib.sha256(json.dumps([*versions, *sorted(leave_out), key_name]).encode())
    for file in files:
        if file.is_file() and file.suffix != ".pyc":
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _published(repository: Path) -> str:
    """Return the stamp of what is published, or an empty string."""
    stamp = repository / "stamp"
    return stamp.read_text() if stamp.is_file() else ""


def _mark(repository: Path, stamp: str) -> None:
    (repository / "stamp").write_text(stamp)
