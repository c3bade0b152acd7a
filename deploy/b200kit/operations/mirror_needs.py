"""What the nodes of an inventory take from their mirror: their stages' packages, locks and models.

The inventory is read as a run reads it, with one difference: `source` is the internet, so that its
repositories are those that a mirror is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyinfra.api.host import Host

from b200kit.catalog import systems
from b200kit.catalog.types import System
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.source import INTERNET, Mirror
from b200kit.inventory.spec import NodeSpec
from b200kit.node.facts.cdi_support import RUNTIMES
from b200kit.node.state.drift import Package
from b200kit.operations import inventory_process, named_files, preflight
from b200kit.operations.inventory_process import InventoryRefused, asked
from b200kit.run.node import Node
from b200kit.stages import pipeline
from b200kit.stages.support import operating_systems
from b200kit.supply.mirror.needs import MirroredModel, Needs, NodeKind, PackageSet
from b200kit.supply.models import hub_model

_PREFERENCES = "/etc/apt/preferences.d/"
# What a stage installs only where the node has another of its kind, or none, by its observation.
_BY_OBSERVATION = ("systemd-timesyncd", "docker-cli")
# Keys of the files that are read here.
_READ = ("source.key", "repositories.", "engine.requirements", "model_manifest")


@dataclass(frozen=True)
class _Member:
    """A node, and the same one if it had no mirror: then its repositories are the origin's."""

    name: str
    spec: NodeSpec
    origin: NodeSpec

    @property
    def mirror(self) -> Mirror | None:
        """Where it takes everything from, unless from the origins."""
        return self.spec.source if isinstance(self.spec.source, Mirror) else None


@asked
def of_inventory(path: Path, kernels: Sequence[str] = (), *, build: bool = True) -> Needs:
    """The needs of every node of an inventory; to *build*, of nodes with one mirror and its key.

    *kernels* are the releases (`uname -r`) that nodes run: their headers are wanted, beside those
    of the distribution's newest. Raises InventoryRefused.
    """
    found = [_member(host, path, build) for host in inventory_process.hosts(path)]
    problems = [line for each in found if isinstance(each, list) for line in each]
    members = [each for each in found if isinstance(each, _Member)]
    keys = {(each.mirror.key, each.mirror.fingerprint) for each in members if each.mirror}
    if build and len(keys) > 1:
        problems.append(f"{path}: nodes name {len(keys)} keys for their mirror: one mirror has one")
    if problems or not members:
        raise InventoryRefused(problems or [f"{path}: there is no node"])
    return _needs(members, kernels)


def _member(host: Host, path: Path, build: bool) -> _Member | list[str]:
    """A node of the inventory; else what is wrong."""
    own, origin = (preflight.parsed(host, changes) for changes in ({}, {"source": INTERNET}))
    if isinstance(own, NodeSpec) and isinstance(origin, NodeSpec):
        problems = list(_problems(own, build))
        if not problems:
            return _Member(host.name, own, origin)
    else:
        problems = own if isinstance(own, list) else [*origin]
    return [f"{path}: {host.name}: {each.key}: {each.message}" for each in problems]


def _problems(spec: NodeSpec, build: bool) -> Iterator[Problem]:
    """Why it is not known what a node takes, as far as files say it; of a mirror to *build*."""
    if build and not isinstance(spec.source, Mirror):
        yield Problem("source", 'names no mirror, as {"mirror": URL, ...} does')
        return
    missing = [each for each in named_files.missing(spec) if each.key.startswith(_READ)]
    yield from missing or named_files.wrong_keys(spec)


def _needs(members: Sequence[_Member], kernels: Sequence[str]) -> Needs:
    specs = [each.spec for each in members]
    mirror = members[0].mirror
    return Needs(
        key=mirror.key if mirror else "",
        fingerprint=mirror.fingerprint if mirror else "",
        kinds=tuple(_kinds(members, kernels)),
        notes=tuple(dict.fromkeys(note for spec in specs for note in _notes(spec, kernels))),
        described=", ".join(dict.fromkeys(word for spec in specs for word in _served(spec))),
    )


def _served(spec: NodeSpec) -> Iterator[str]:
    yield from (str(spec.system), f"driver {spec.driver}")
    yield from (f"{spec.engine.name} {spec.engine.version}", spec.model)


def _kinds(members: Sequence[_Member], kernels: Sequence[str]) -> Iterator[NodeKind]:
    """Nodes that take the same, in the inventory's order."""
    groups: dict[NodeKind, list[str]] = {}
    for each in members:
        engine, url = each.spec.engine, each.mirror.url if each.mirror else None
        lock = None if engine.image else engine.requirements
        kind = NodeKind((), url, _transaction(each, kernels), lock, _model(each))
        groups.setdefault(kind, []).append(each.name)
    return (replace(kind, nodes=tuple(names)) for kind, names in groups.items())


def _notes(spec: NodeSpec, kernels: Sequence[str]) -> Iterator[str]:
    if spec.engine.image:
        yield f"{spec.engine.image}: pulled from the registry it names; --image takes one along"
    if not kernels:
        yield (
            "no --kernel is given: headers of the distribution's newest kernel alone; nodes that "
            "run another (uname -r) need its own"
        )


def _model(member: _Member) -> MirroredModel:
    origin = member.origin
    pinned = origin.model_manifest or ""
    return MirroredModel(origin.model, origin.model_revision, pinned, hub_model.made_by(origin))


def _transaction(member: _Member, kernels: Sequence[str]) -> PackageSet:
    spec = member.spec
    system = systems.load()[spec.system or ""]
    node = Node(member.name, spec, state=_bare(system))
    stages = pipeline.desired(node)
    packages = [package for stage in stages for package in stage.packages]
    named = {package.name for package in packages}
    perhaps = {*_perhaps(spec), *_headers(system, kernels)} - named
    packages += [Package(name, optional=True) for name in perhaps]
    found = [file for stage in stages for file in stage.files]
    preferences = [file.content for file in found if file.path.startswith(_PREFERENCES)]
    plain = (Package(p.name, p.version, optional=p.optional) for p in packages)
    return PackageSet(
        system=system.key,
        repositories=member.origin.repositories,
        packages=tuple(sorted(set(plain), key=lambda package: package.key)),
        preferences="\n".join(content.decode() for content in preferences),
    )


def _bare(system: System) -> dict[str, Any]:
    """As much of an observation as decides which packages there are for a node."""
    release = {"id": system.id, "version_id": system.version, "pretty": system.name}
    return {"host": {"os": release, "arch": "x86_64"}}


def _perhaps(spec: NodeSpec) -> Iterator[str]:
    yield from _BY_OBSERVATION
    yield from (RUNTIMES[name].package for name in spec.container_runtimes)


def _headers(system: System, kernels: Sequence[str]) -> Iterator[str]:
    """Packages with headers: of each kernel and its flavour, and of the distribution's own."""
    own = system.kernels
    yield from operating_systems.headers(system, f"{own.first}.0-0-{own.usual}")[1:]
    for kernel in kernels:
        yield from operating_systems.headers(system, kernel)
        yield from operating_systems.extra_modules(system, kernel)
