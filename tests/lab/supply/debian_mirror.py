"""The Debian packages nodes need beyond the base, with what they depend on, fetched once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tests.lab.mounts import remove_tree
from tests.lab.paths import LabPaths
from tests.lab.shell import Progress, run, timed
from tests.lab.supply import given_rootfs
from tests.lab.supply.debian import debian_sources, main_source
from tests.lab.supply.systems import NEWER, System, system_of

# What a stage of the pipeline installs, or what the vendor's packages depend on.
PACKAGES = (
    "chrony", "ethtool", "g++", "haproxy", "ibverbs-utils", "infiniband-diags", "jq", "libnuma1",
    "lldpd", "mdadm", "nftables", "numactl", "nvme-cli", "python3-dev", "python3-pip-whl",
    "python3-setuptools-whl", "python3-venv", "rdma-core", "sysstat", "tuned",
)  # fmt: skip


@dataclass(frozen=True)
class Pool:
    """Packages a kind of node may install: their closure beyond what it is born with.

    ``born`` is the stamp of what such a node is made by, ``status`` its dpkg's status file.
    ``newer`` are packages to take from Debian 13, which must do with the libraries of the system.
    """

    name: str
    packages: tuple[str, ...]
    system: System
    born: str
    status: Path
    extended_states: Path
    newer: tuple[str, ...] = ()

    @property
    def stamp(self) -> str:
        """A hash of what a node is born with and what it may install."""
        return hashlib.sha256(json.dumps([self.born, self.packages]).encode()).hexdigest()[:16]


def pool_of(
    lab: LabPaths, name: str, packages: tuple[str, ...], newer: tuple[str, ...] = ()
) -> Pool:
    """Return a pool for the lab's hosts, whose base is there."""
    status, extended = lab.base / "var/lib/dpkg/status", lab.base / "var/lib/apt/extended_states"
    born = lab.base_stamp.read_text()
    return Pool(name, packages, system_of(lab), born, status, extended, newer)


def ensure_pool(lab: LabPaths, wanted: Pool, progress: Progress) -> Path:
    """Return the directory of a pool's ``.deb`` files, fetching them the first time.

    This machine's own apt does it (so its proxy settings count), with the packages
    of such a node as the installed ones; the result is exactly the closure that a node is missing.
    """
    pool = lab.cache / f"{wanted.name}-{wanted.system.name}"
    stamp = pool / "stamp"
    if stamp.is_file() and stamp.read_text() == wanted.stamp:
        return pool
    building = pool.with_name(f"{pool.name}.building")
    for leftover in (building, pool):
        remove_tree(leftover)
    with timed(progress, f"mirror: packages of {wanted.system.title} the hosts will install"):
        archives = building / "archives"
        if wanted.system.digest:
            (archives / "partial").mkdir(parents=True)
            given_rootfs.fetch(wanted.status.parents[3], wanted.packages, archives)
        else:
            _fetch(wanted, building)
    remove_tree(archives / "partial")
    (archives / "lock").unlink(missing_ok=True)
    (archives / "stamp").write_text(wanted.stamp)
    archives.rename(pool)
    remove_tree(building)
    return pool


def _fetch(wanted: Pool, building: Path) -> None:
    options = _apt_options(wanted, building)
    run(["apt-get", *options, "update"], timeout=600)
    install = ["install", "--download-only", "--no-install-recommends", "-y", *wanted.packages]
    run(["apt-get", *options, *install], timeout=1200)


def _apt_options(wanted: Pool, work: Path) -> list[str]:
    """Return apt options that give it lists, cache and sources of its own below ``work``."""
    for directory in ("lists/partial", "archives/partial", "etc"):
        (work / directory).mkdir(parents=True)
    sources, preferences = work / "etc/sources.list", work / "etc/preferences"
    lines = [*debian_sources(wanted.system), *([main_source(NEWER)] if wanted.newer else [])]
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
        f"Package: {names}\nPin: release n={NEWER.suite}\nPin-Priority: {priority}\n"
        for names, priority in pins
    )
