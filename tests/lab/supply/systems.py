"""The operating systems that nodes of the lab may have, as data, and which one a lab has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tests.lab.paths import LabError, LabPaths

VARIABLE = "B200_LAB_OS"
"""Environment variable that names the operating system of a lab that is brought up."""


@dataclass(frozen=True)
class System:
    """One of them: Debian's suite, and the version of its Python, which the engine is for."""

    name: str
    title: str
    suite: str
    python: str


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("debian12", "Debian 12", "bookworm", "3.11"),
        System("debian13", "Debian 13", "trixie", "3.13"),
    )
}
DEFAULT = SYSTEMS["debian12"]
NEWER = SYSTEMS["debian13"]


def named(name: str) -> System:
    """Return a system by its name; `LabError` if nodes cannot have it."""
    if name not in SYSTEMS:
        raise LabError(f"{name} is no operating system of the lab: {', '.join(SYSTEMS)}")
    return SYSTEMS[name]


def system_of(lab: LabPaths) -> System:
    """Return the system of a lab's nodes: what was chosen for them, else the default."""
    return named(lab.system.readlink().name) if lab.system.is_symlink() else DEFAULT


def choose(lab: LabPaths, asked: str | None = None) -> System:
    """Give the lab a system: ``asked``, else ``$B200_LAB_OS``, what it has, or the default.

    Raises `LabError` where its nodes have another one.
    """
    there = system_of(lab) if lab.hosts.is_dir() else None
    word = asked or os.environ.get(VARIABLE) or (there or DEFAULT).name
    system = named(word)
    if there and system != there:
        raise LabError(f"this lab's nodes have {there.title}: `b200 lab down` before {word}")
    lab.own.mkdir(parents=True, exist_ok=True)
    lab.system.unlink(missing_ok=True)
    lab.system.symlink_to(lab.root / "systems" / system.name)
    return system
