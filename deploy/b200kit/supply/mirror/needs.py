"""What a mirror has to hold for an inventory. Pure.

b200kit/operations/mirror_needs.py computes it with the stages' own lists, so that a package which a
stage comes to install is in the next mirror.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.parts import Repository
from b200kit.node.state.drift import Package


@dataclass(frozen=True)
class Transaction:
    """What nodes of one kind install: the packages, from where, under which preferences."""

    system: str
    repositories: tuple[Repository, ...]
    packages: tuple[Package, ...]
    preferences: str


@dataclass(frozen=True)
class Checkpoint:
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
class Needs:
    """Everything that an inventory's nodes take from their mirror, and the key they know it by."""

    key: str
    fingerprint: str
    transactions: tuple[Transaction, ...]
    # Hash-locked lists of wheels, each for one Python.
    locks: tuple[str, ...]
    models: tuple[Checkpoint, ...]
    # What nodes get elsewhere, one line each.
    notes: tuple[str, ...]
    described: Mapping[str, Any]

    @property
    def systems(self) -> list[str]:
        """The operating systems, by name."""
        return sorted({each.system for each in self.transactions})
