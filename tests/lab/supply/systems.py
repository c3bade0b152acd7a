"""The operating systems that nodes of the lab may have, as data, and which one a lab has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from b200kit.catalog import systems
from tests.lab.paths import LabError, LabPaths

VARIABLE = "B200_LAB_OS"
"""Environment variable that names the operating system of a lab that is brought up."""


@dataclass(frozen=True)
class System:
    """One of them, with Debian's suite that its packages are of.

    *shape*: Debian gets the names, the Python and the automatic services of that system, whose own
    packages no mirror has here. A *digest*, SHA-256, is of a file of the user's that is a whole
    root file system (tests/lab/supply/given_rootfs.py): then its packages come from where it says.
    """

    key: str
    suite: str = ""
    shape: bool = False
    codename: str = "noble"
    digest: str = ""

    @property
    def name(self) -> str:
        """As files of the lab are named: as an inventory names it, with the digest's begin."""
        return f"{self.key}@{self.digest[:16]}" if self.digest else self.key

    @property
    def python(self) -> str:
        """The version of its Python, which the engine is for."""
        return systems.load()[self.key].versions.python

    @property
    def title(self) -> str:
        """What a person reads, here and in every report."""
        plain = systems.load()[self.key].name
        if self.digest:
            return f"{plain} of sha256:{self.digest}"
        return f"Ubuntu-shaped Debian 12 ({plain})" if self.shape else plain


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("debian12", "bookworm"),
        System("debian13", "trixie"),
        System("ubuntu2204", "bookworm", shape=True, codename="jammy"),
        System("ubuntu2404", "bookworm", shape=True),
    )
}
DEFAULT = SYSTEMS["debian12"]
NEWER = SYSTEMS["debian13"]
UBUNTU = SYSTEMS["ubuntu2404"]


def named(name: str) -> System:
    """Return a system by its name; `LabError` if nodes cannot have it."""
    if name not in SYSTEMS:
        raise LabError(f"{name} is no operating system of the lab: {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def system_of(lab: LabPaths) -> System:
    """Return the system of a lab's nodes: what was chosen for them, else the default."""
    if not lab.system.is_symlink():
        return DEFAULT
    key, _, given = lab.system.readlink().name.partition("@")
    return System(key, digest=(lab.system / "digest").read_text()) if given else named(key)


def choose(lab: LabPaths, asked: str | None = None, given: System | None = None) -> System:
    """Give the lab a system: *given*, ``asked``, ``$B200_LAB_OS``, what it has, or the default.

    Raises `LabError` where its nodes have another one.
    """
    there = system_of(lab) if lab.hosts.is_dir() else None
    word = asked or os.environ.get(VARIABLE)
    system = given or (named(word) if word else there or DEFAULT)
    if there and system != there:
        raise LabError(f"this lab's nodes have {there.title}: `b200 lab down` before {system.name}")
    lab.own.mkdir(parents=True, exist_ok=True)
    shared = lab.root / "systems" / system.name
    if system.digest:
        shared.mkdir(parents=True, exist_ok=True)
        (shared / "digest").write_text(system.digest)
    lab.system.unlink(missing_ok=True)
    lab.system.symlink_to(shared)
    return system
