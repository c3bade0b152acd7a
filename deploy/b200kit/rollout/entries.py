"""The nodes of this run that wait for their wave, and what earlier runs say of the same change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from b200kit.inventory.keys.rollout import Rollout
from b200kit.reprovision.fleet_limits import SAFETY
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.planned_change import ChangeSummary
from b200kit.rollout import waves
from b200kit.rollout.turns import Turns
from b200kit.rollout.waves import Wave
from b200kit.run.node import Node
from b200kit.store.database import StoreError


@dataclass(frozen=True)
class WaitingNode:
    """A node that waits: what is changed, and what of it is final.

    *in_place*: replica by replica, as nobody else can take its work. *continues*: an earlier run
    took it out and did not come to its end. *measures*: nothing of it is changed. *fetches_ahead*:
    its model is fetched before its wave.
    """

    node: Node
    title: str
    in_place: bool = False
    measures: bool = False
    final: tuple[str, ...] = ()
    before: Mapping[str, Any] | None = None
    fetches_ahead: bool = False
    continues: bool = False

    @property
    def drains_first(self) -> bool:
        """Whether this run takes it out of traffic before it changes anything."""
        return not (self.in_place or self.continues)


@dataclass(frozen=True)
class NodeHistory:
    """What the transactions of the inventory's nodes say of changes that were made or tried."""

    changes: Mapping[str, ChangeSummary | None]

    @classmethod
    def read(cls, transactions: Transactions, inventory: Sequence[str]) -> NodeHistory:
        """Of each node the last change. One that is damaged counts as out; of it nobody knows."""
        found = {}
        for name in inventory:
            with suppress(StoreError):
                found[name] = transactions.standing(name).change
        return cls(found)

    def good(self, titles: set[str]) -> int:
        """Nodes whose last change was one of these, and good."""
        return sum(
            change.outcome == "done" and change.title in titles
            for change in self.changes.values()
            if change
        )

    def bad(self, title: str) -> str | None:
        """A node on which this change was bad, and that nothing else was changed on since."""
        found = (n for n, c in self.changes.items() if c and c.bad and c.title == title)
        return next(found, None)


@dataclass
class Entries:
    """All of this process: nodes that wait, those whose plan is known, and whose plan is shown."""

    waiting: dict[str, WaitingNode] = field(default_factory=dict)
    planned: set[str] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)
    _turns: Turns | None = None
    _history: NodeHistory | None = None

    def history(self) -> NodeHistory:
        """What earlier runs left, read once."""
        if self._history is None:
            self._history = NodeHistory.read(SAFETY.transactions, SAFETY.inventory)
        return self._history

    def turns(self, nodes: Mapping[str, Node]) -> Turns:
        """The waves, made once, when the plan of every node that is still in the run is known."""
        if self._turns is None:
            found = self.plan(nodes)
            self._turns = Turns(found, self.policy().stop_after, self._lost(nodes))
        return self._turns

    def policy(self) -> Rollout:
        """What satisfies all nodes that wait."""
        return waves.strictest(entry.node.spec.rollout for entry in self.waiting.values())

    def plan(self, nodes: Mapping[str, Node]) -> list[Wave]:
        """The waves; nodes that an earlier run left out come back before any other leaves."""
        out = tuple(name for name in nodes if name in self.waiting and self._continues(name))
        specs = {name: node.spec for name, node in nodes.items()}
        going = [name for name in self.waiting if name not in out]
        policy = self.policy()
        titles = {entry.title for entry in self.waiting.values()}
        canaries = max(0, policy.canary - self.history().good(titles) - len(out))
        found = waves.waves(waves.units(specs, going), policy, canaries)
        return [*([Wave(out)] if out else []), *found]

    def _continues(self, name: str) -> bool:
        return self.waiting[name].continues

    def _lost(self, nodes: Mapping[str, Node]) -> Callable[[str], bool]:
        return lambda name: name not in self.waiting or nodes[name].record.outcome is not None


ENTRIES = Entries()
"""Of the run."""
FORESEEN = Entries()
"""Of the look before it, which a dry run ends with."""
