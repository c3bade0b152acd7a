"""The Debian packages nodes need beyond the base, with what they depend on, fetched once."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.lab.debian import debian_sources
from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths
from tests.lab.rootfs import recipe_stamp
from tests.lab.shell import Progress, run, timed

# What a stage of the pipeline installs, or what the vendor's packages depend on.
PACKAGES = (
    "chrony", "ethtool", "haproxy", "ibverbs-utils", "infiniband-diags", "jq", "libnuma1",
    "lldpd", "nftables", "numactl", "nvme-cli", "python3-pip-whl", "python3-setuptools-whl",
    "python3-venv", "rdma-core", "sysstat", "tuned",
)  # fmt: skip


def debian_stamp() -> str:
    """Return a hash of everything that decides which packages are fetched."""
    return hashlib.sha256(json.dumps([recipe_stamp(), PACKAGES]).encode()).hexdigest()[:16]


def ensure_debian_packages(lab: LabPaths, progress: Progress) -> Path:
    """Return the directory of ``.deb`` files that completes the base, fetching it the first time.

    This machine's own apt does it (so its proxy settings count), told that what is installed is
    what the base holds; the result is thus exactly the closure a host lacks.
    """
    pool = lab.cache / "debian"
    stamp = pool / "stamp"
    if stamp.is_file() and stamp.read_text() == debian_stamp():
        return pool
    building = lab.cache / "debian.building"
    for leftover in (building, pool):
        remove_tree(leftover)
    with timed(progress, "mirror: Debian packages the hosts will install"):
        options = _apt_options(lab, building)
        run(["apt-get", *options, "update"], timeout=600)
        install = ["install", "--download-only", "--no-install-recommends", "-y", *PACKAGES]
        run(["apt-get", *options, *install], timeout=1200)
    archives = building / "archives"
    remove_tree(archives / "partial")
    (archives / "lock").unlink(missing_ok=True)
    (archives / "stamp").write_text(debian_stamp())
    archives.rename(pool)
    remove_tree(building)
    return pool


def _apt_options(lab: LabPaths, work: Path) -> list[str]:
    """Return apt options that give it lists, cache and sources of its own below ``work``."""
    for directory in ("lists/partial", "archives/partial", "etc"):
        (work / directory).mkdir(parents=True)
    sources = work / "etc/sources.list"
    sources.write_text("".join(f"{line}\n" for line in debian_sources()), encoding="utf-8")
    settings = {
        "Dir::State": work,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": lab.base / "var/lib/dpkg/status",
        "Dir::State::extended_states": lab.base / "var/lib/apt/extended_states",
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    return [f"--option={key}={value}" for key, value in settings.items()]
