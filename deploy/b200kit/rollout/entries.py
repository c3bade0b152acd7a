"""The nodes of this run that wait for their wave, and what earlier runs say of the same change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from b200kit.inventory.keys.rollout import Rollout
from b200kit.reprovision import newest
from b200kit.reprovision.ledger import Damaged
from b200kit.rollout import waves
from b200kit.rollout.turns import Turns
from b200kit.rollout.waves import Wave
from b200kit.run.node import Node


@dataclass(frozen=True)
class Entry:
    """A node that waits: what is changed, and what of it is final.

    *in_place*: replica by replica, as nobody else can take its work. *continues*: an earlier run
    took it out and did not come to its end.
    """

    node: Node
    title: str
    in_place: bool = False
    final: tuple[str, ...] = ()
    before: Mapping[str, Any] | None = None
    continues: bool = False


@dataclass
class Entries:
    """All of this process. `planned` has the nodes whose plan is known, `said` where it is said."""

    waiting: dict[str, Entry] = field(default_factory=dict)
    planned: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    _turns: Turns | None = None

    def turns(self, nodes: Mapping[str, Node], history: History) -> Turns:
        """The waves, made once, when the plan of every node that is still in the run is known."""
        if self._turns is None:
            found = self.plan(nodes, history)
            self._turns = Turns(found, self.policy().stop_after, self._lost(nodes))
        return self._turns

    def policy(self) -> Rollout:
        """What satisfies all nodes that wait."""
        return waves.strictest(entry.node.spec.rollout for entry in self.waiting.values())

    def plan(self, nodes: Mapping[str, Node], history: History) -> list[Wave]:
        """The waves; nodes that an earlier run left out come back before any other leaves."""
        out = tuple(name for name in nodes if name in self.waiting and self._continues(name))
        specs = {name: node.spec for name, node in nodes.items()}
        going = [name for name in self.waiting if name not in out]
        policy = self.policy()
        shown = history.good({entry.title for entry in self.waiting.values()}) + len(out)
        found = waves.waves(waves.units(specs, going), policy, max(0, policy.canary - shown))
        return [*([Wave(out)] if out else []), *found]

    def _continues(self, name: str) -> bool:
        return self.waiting[name].continues

    def _lost(self, nodes: Mapping[str, Node]) -> Callable[[str], bool]:
        return lambda name: name not in self.waiting or nodes[name].outcome is not None


@dataclass(frozen=True)
class History:
    """What the transactions of the inventory's nodes say of changes that were made or tried."""

    folder: Path
    inventory: tuple[str, ...]

    def good(self, titles: set[str]) -> int:
        """Nodes whose last change was one of these, and good."""
        return sum(
            change.get("outcome") == "done" and change.get("title") in titles
            for _, change in self._changes()
        )

    def bad(self, title: str) -> str | None:
        """A node on which this change was bad, and that nothing else was changed on since."""
        found = ((name, change) for name, change in self._changes() if change.get("bad"))
        return next((name for name, change in found if change.get("title") == title), None)

    def _changes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in self.inventory:
            try:
                yield name, newest.last_change(self.folder, name)
            except Damaged:
                # It counts as out of service; what was changed there nobody knows.
                continue


ENTRIES = Entries()
"""Of the run."""
FORESEEN = Entries()
"""Of the look before it, which a dry run ends with."""
