"""The Debian packages nodes need beyond the base, with what they depend on, fetched once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths
from tests.lab.rootfs import recipe_stamp
from tests.lab.shell import Progress, run, timed
from tests.lab.supply.debian import NEWER, debian_sources, newer_source

# What a stage of the pipeline installs, or what the vendor's packages depend on.
PACKAGES = (
    "chrony", "ethtool", "g++", "haproxy", "ibverbs-utils", "infiniband-diags", "jq", "libnuma1",
    "lldpd", "mdadm", "nftables", "numactl", "nvme-cli", "python3-dev", "python3-pip-whl",
    "python3-setuptools-whl", "python3-venv", "rdma-core", "sysstat", "tuned",
)  # fmt: skip


@dataclass(frozen=True)
class Pool:
    """Packages a kind of node may install: their closure beyond what it is born with.

    ``status`` is dpkg's status file of such a node; ``stamp`` changes when that or the list does.
    ``newer`` are packages to take from Debian 13, which must do with the libraries of Debian 12.
    """

    name: str
    packages: tuple[str, ...]
    status: Path
    extended_states: Path
    stamp: str
    newer: tuple[str, ...] = ()


def debian_stamp() -> str:
    """Return a hash of everything that decides which packages are fetched."""
    return pool_stamp(recipe_stamp(), PACKAGES)


def pool_stamp(system: str, packages: tuple[str, ...]) -> str:
    """Return a hash of what a node is born with (its recipe's stamp) and what it may install."""
    return hashlib.sha256(json.dumps([system, packages]).encode()).hexdigest()[:16]


def ensure_debian_packages(lab: LabPaths, progress: Progress) -> Path:
    """Return the directory of ``.deb`` files that completes the base; fetched the first time."""
    status, extended = lab.base / "var/lib/dpkg/status", lab.base / "var/lib/apt/extended_states"
    return ensure_pool(lab, Pool("debian", PACKAGES, status, extended, debian_stamp()), progress)


def ensure_pool(lab: LabPaths, wanted: Pool, progress: Progress) -> Path:
    """Return the directory of a pool's ``.deb`` files, fetching them the first time.

    This machine's own apt does it (so its proxy settings count), with the packages
    of such a node as the installed ones; the result is exactly the closure that a node is missing.
    """
    pool = lab.cache / wanted.name
    stamp = pool / "stamp"
    if stamp.is_file() and stamp.read_text() == wanted.stamp:
        return pool
    building = lab.cache / f"{wanted.name}.building"
    for leftover in (building, pool):
        remove_tree(leftover)
    with timed(progress, "mirror: Debian packages the hosts will install"):
        options = _apt_options(wanted, building)
        run(["apt-get", *options, "update"], timeout=600)
        install = ["install", "--download-only", "--no-install-recommends", "-y", *wanted.packages]
        run(["apt-get", *options, *install], timeout=1200)
    archives = building / "archives"
    remove_tree(archives / "partial")
    (archives / "lock").unlink(missing_ok=True)
    (archives / "stamp").write_text(wanted.stamp)
    archives.rename(pool)
    remove_tree(building)
    return pool


def _apt_options(wanted: Pool, work: Path) -> list[str]:
    """Return apt options that give it lists, cache and sources of its own below ``work``."""
    for directory in ("lists/partial", "archives/partial", "etc"):
        (work / directory).mkdir(parents=True)
    sources, preferences = work / "etc/sources.list", work / "etc/preferences"
    lines = [*debian_sources(), *([newer_source()] if wanted.newer else [])]
    sources.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    preferences.write_text(_preferences(wanted.newer), encoding="utf-8")
    settings = {
        "Dir::State": work,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": wanted.status,
        "Dir::State::extended_states": wanted.extended_states,
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": preferences,
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
    }
    return [f"--option={key}={value}" for key, value in settings.items()]


def _preferences(newer: tuple[str, ...]) -> str:
    """Return apt preferences that take ``newer`` from Debian 13, and nothing else."""
    if not newer:
        return ""
    pins = ((" ".join(newer), 990), ("*", 1))
    return "\n".join(
        f"Package: {names}\nPin: release n={NEWER}\nPin-Priority: {priority}\n"
        for names, priority in pins
    )
