"""What a mirror has to hold for an inventory. Pure.

b200kit/operations/mirror_needs.py computes it with the stages' own lists, so that a package which a
stage comes to install is in the next mirror.
"""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.inventory.keys.parts import Repository
from b200kit.node.state.drift import Package


@dataclass(frozen=True)
class PackageSet:
    """What nodes of one kind install: the packages, from where, under which preferences."""

    system: str
    repositories: tuple[Repository, ...]
    packages: tuple[Package, ...]
    preferences: str


@dataclass(frozen=True)
class MirroredModel:
    """A model at one revision; *manifest* is its file on the controller, which *made_by* makes."""

    name: str
    revision: str
    manifest: str
    made_by: str

    @property
    def folder(self) -> str:
        """Where the mirror has it."""
        return f"models/{self.name}/{self.revision}"


@dataclass(frozen=True)
class NodeKind:
    """Nodes that take the same from the same place.

    source: the mirror's URL; None where they take it from the origins themselves. lock: a
    hash-locked list of wheels for one Python; None where the engine is an image.
    """

    nodes: tuple[str, ...]
    source: str | None
    transaction: PackageSet
    lock: str | None
    model: MirroredModel


@dataclass(frozen=True)
class Needs:
    """Everything that an inventory's nodes take, and the key by which they know their mirror."""

    key: str
    fingerprint: str
    kinds: tuple[NodeKind, ...]
    # What nodes get elsewhere, one line each.
    notes: tuple[str, ...]
    described: str

    @property
    def transactions(self) -> tuple[PackageSet, ...]:
        """What is asked of apt, once each."""
        return tuple(dict.fromkeys(kind.transaction for kind in self.kinds))

    @property
    def locks(self) -> tuple[str, ...]:
        """The lists of wheels."""
        return tuple(sorted({kind.lock for kind in self.kinds if kind.lock}))

    @property
    def models(self) -> tuple[MirroredModel, ...]:
        """The models."""
        return tuple(dict.fromkeys(kind.model for kind in self.kinds))

    @property
    def systems(self) -> list[str]:
        """The operating systems, by name."""
        return sorted({each.system for each in self.transactions})
