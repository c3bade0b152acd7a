"""The states that a node of the lab is held at, as any tool may hold them: of its desired state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from b200kit.catalog import load
from b200kit.inventory import secrets
from b200kit.inventory.parse import parse
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit, Package
from b200kit.run.node import Node
from b200kit.run.session import RUN
from b200kit.stages import pipeline
from tests.e2e.driving import ROOT
from tests.lab import inventory


@dataclass(frozen=True)
class States:
    """What a node is held at: files, packages, units.

    A package's version is the whole one that is installed, or None where any will do. *left_out*
    counts by name what b200kit holds and the other tools' plain modules do not.
    """

    files: tuple[File, ...]
    packages: tuple[Package, ...]
    units: tuple[NodeUnit, ...]
    left_out: Mapping[str, int]

    @property
    def holds(self) -> tuple[str, ...]:
        """Names of the packages that apt must not exchange."""
        return tuple(package.name for package in self.packages if package.hold)

    @property
    def count(self) -> int:
        """How many states it is; a hold is one of its own."""
        return sum(map(len, (self.files, self.packages, self.holds, self.units)))


def of_node(lab: Mapping[str, Any], host: Mapping[str, Any], seen: Mapping[str, Any]) -> States:
    """States of one host of ``lab.json``; *seen* is its part of a run's report, once it is live."""
    RUN.site = str(ROOT / "inventories")
    node = _node(lab, host, seen)
    layout = node.layout()
    parts = [stage.desired(node, layout) for stage in pipeline.stages()]
    installed = drift.versions(node.state or {})
    packages = {p.name: p for part in parts for p in part.packages if p.name in installed}
    return States(
        files=tuple({file.path: file for part in parts for file in part.files}.values()),
        packages=tuple(_exact(package, installed) for package in packages.values()),
        units=_units([unit for part in parts for unit in part.units]),
        left_out={
            "checks": len(seen["verdict"]["findings"]),
            "files absent": len({path for part in parts for path in part.absent_files}),
            "units absent": len({name for part in parts for name in part.absent_units}),
            "engine and model": 2,
        },
    )


def _node(lab: Mapping[str, Any], host: Mapping[str, Any], seen: Mapping[str, Any]) -> Node:
    spec = parse(inventory.node(dict(lab), dict(host)), load.load())
    if isinstance(spec, list):
        raise TypeError(f"the lab's inventory is refused: {spec}")
    found, problems = secrets.resolve(spec, reprovisioning=False)
    if problems:
        raise ValueError(f"the lab's secrets cannot be had: {problems}")
    node = Node(host["name"], spec, found)
    node.take_observation(seen["state"])
    return node


def _exact(package: Package, installed: Mapping[str, str]) -> Package:
    """With the whole version where any is asked for: apt knows no upstream part alone."""
    return replace(package, version=installed[package.name] if package.version else None)


def _units(units: list[NodeUnit]) -> tuple[NodeUnit, ...]:
    """Each unit once; it must run where any stage says so."""
    running = {unit.name for unit in units if unit.active}
    return tuple(NodeUnit(name, name in running) for name in dict.fromkeys(u.name for u in units))


def write_sources(folder: Path, states: Mapping[str, States]) -> None:
    """Write each host's files into *folder*/HOST, which only their owner may read."""
    for name, those in states.items():
        (folder / name).mkdir(mode=0o700)
        for file in those.files:
            place = folder / name / source(file)
            place.touch(0o600)
            place.write_bytes(file.content)


def source(file: File) -> str:
    """The name of the file that the others copy it from: its path in one word."""
    return quote(file.path, safe="")


def common(states: Mapping[str, States]) -> States:
    """The states of any host: all have the same but for contents, or it is a ValueError."""
    first, *others = states.values()
    for other in others:
        same = (other.packages, other.units) == (first.packages, first.units)
        if not same or [*map(_place, other.files)] != [*map(_place, first.files)]:
            raise ValueError("the hosts are held at different states")
    return first


def _place(file: File) -> tuple[str, int, str]:
    return file.path, file.mode, file.owner
