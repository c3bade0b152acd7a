"""Which nodes of a run may be taken out, and when: waves, the floor and the breaker, run-wide.

A node waits for its turn in this process; then whether it may go is decided and written down in one
step that no other controller comes between. Nodes that are out already, by an earlier run, do not
ask, and the floor does not hold back those that do not serve: repairing them only adds capacity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from b200kit.reprovision import circuit_breaker
from b200kit.reprovision.circuit_breaker import FleetState
from b200kit.reprovision.ledger import Transactions
from b200kit.run.node import Node, StageFailed
from b200kit.run.session import RUN
from b200kit.store.database import StoreError

# How long a node that serves lets the others of its run begin that do not.
_YIELD_S = 0.2


class Deferred(StageFailed):
    """A node that is left as it is, in one line that a person can act on."""


@dataclass
class Safety:
    """What is known of the fleet in this process. pyinfra's gevent makes threads greenlets."""

    transactions: Transactions = field(default_factory=Transactions)
    inventory: tuple[str, ...] = ()
    failing: dict[str, str] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    announced: dict[str, str] = field(default_factory=dict)
    observed: set[str] = field(default_factory=set)
    # Nodes of this run that were seen not to serve.
    down: set[str] = field(default_factory=set)
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def report(self, name: str, cause: str) -> None:
        """A node of this run fails, by this cause."""
        self.failing[name] = cause

    def mark_observed(self, node: Node, serves: bool) -> str:
        """The node was observed; after the last of the run, why the breaker is open, if it is."""
        self.observed.add(node.name)
        self._mark(node.name, serves)
        return (
            circuit_breaker.open_reason(self.fleet(node)) if self.observed >= set(RUN.nodes) else ""
        )

    def resume(self, name: str) -> None:
        """A node that is out already takes its place, whatever the limits."""
        with self._turn:
            self.inside.add(name)

    def enter(self, node: Node, serves: bool) -> bool:
        """Wait for a place in the wave; raises Deferred where the breaker or the floor forbid it.

        Returns whether it had to wait.
        """
        waited = asked = False
        with self._turn:
            while True:
                self._refuse_by_breaker(node)
                floor = self._floor_reason(node, serves)
                if not floor and len(self.inside) < node.spec.rollout.max_out:
                    self.inside.add(node.name)
                    return waited
                if floor and asked and not self.inside:
                    raise Deferred(floor)
                # Those that do not serve go first: one may come back, and then there is room.
                waited = waited or bool(self.inside)
                self._turn.wait(None if self.inside else _YIELD_S)
                asked = True

    def take_out(self, node: Node, serves: bool, begin: Callable[[], object]) -> None:
        """Look at the fleet, decide and *begin*, as one step among all controllers.

        Raises Deferred where another controller has taken the room.
        """
        with self.transactions.store.writing():
            self._refuse_by_breaker(node)
            if reason := self._floor_reason(node, serves):
                raise Deferred(reason)
            begin()

    def leave(self, name: str, serves: bool) -> None:
        """The node is done, or stays out with no more to be done: the next one's turn."""
        with self._turn:
            self.inside.discard(name)
            self._mark(name, serves)
            self._turn.notify_all()

    def _mark(self, name: str, serves: bool) -> None:
        (self.down.discard if serves else self.down.add)(name)

    def _refuse_by_breaker(self, node: Node) -> None:
        if reason := circuit_breaker.open_reason(self.fleet(node)):
            raise Deferred(self._once(node.name, reason))

    def _floor_reason(self, node: Node, serves: bool) -> str:
        reason = circuit_breaker.floor_reason(self.fleet(node), node.name, serves)
        return reason and f"not taken out: {reason}"

    def fleet(self, node: Node) -> FleetState:
        """The fleet as this node's limits see it."""
        limits = node.spec.reprovision
        out, causes, unread = self._elsewhere()
        nodes = max(len(self.inventory), 1)
        return FleetState(
            nodes=nodes,
            out=out | self.inside | self.down | self._unseen(),
            unread=unread,
            failing={**causes, **self.failing},
            least=node.spec.rollout.least(nodes),
            max_same_cause=limits.max_same_cause,
        )

    def _unseen(self) -> set[str]:
        """Nodes that left this run before anybody saw whether they serve."""
        left = {name for name, node in RUN.nodes.items() if node.record.outcome is not None}
        return left - self.observed

    def _elsewhere(self) -> tuple[set[str], dict[str, str], set[str]]:
        """Nodes that a transaction keeps out of service, whoever began it, and their causes.

        A node whose transaction cannot be read may be out, and so counts; they come once more.
        """
        still, unread = dict[str, str](), set[str]()
        try:
            with self.transactions.store.reading():
                for name in self.inventory:
                    try:
                        standing = self.transactions.standing(name)
                    except StoreError:
                        unread.add(name)
                        continue
                    if standing.tx:
                        still[name] = standing.cause
        except StoreError:
            unread = set(self.inventory)
        causes = {name: cause for name, cause in still.items() if cause}
        return {*still, *unread}, causes, unread

    def _once(self, name: str, reason: str) -> str:
        """The whole line for the first node it stops, and where to find it for the others."""
        first = self.announced.setdefault(reason, name)
        return reason if first == name else f"not taken out: the breaker is open, see {first}"


SAFETY = Safety()
