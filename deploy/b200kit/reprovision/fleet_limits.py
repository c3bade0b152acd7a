"""Which nodes of a run may be taken out, and when: waves, the floor and the breaker, run-wide.

A node asks before it is taken out and reports when it is done. Nodes whose transaction was begun by
an earlier run do not ask: they are out already, and repairing them only adds capacity.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.reprovision import circuit_breaker, ledger
from b200kit.reprovision.circuit_breaker import Fleet
from b200kit.run.file_names import safe_name
from b200kit.run.node import Node, StageFailed
from b200kit.run.session import RUN


class Deferred(StageFailed):
    """A node that is left as it is, in one line that a person can act on."""


@dataclass
class Safety:
    """What is known of the fleet in this process. pyinfra's gevent makes threads greenlets."""

    folder: Path = field(default_factory=ledger.directory)
    inventory: tuple[str, ...] = ()
    failing: dict[str, str] = field(default_factory=dict)
    inside: set[str] = field(default_factory=set)
    announced: dict[str, str] = field(default_factory=dict)
    observed: set[str] = field(default_factory=set)
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def report(self, name: str, cause: str) -> None:
        """A node of this run fails, by this cause."""
        self.failing[name] = cause

    def mark_observed(self, node: Node) -> str:
        """The node was observed; after the last of the run, why the breaker is open, if it is."""
        self.observed.add(node.name)
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
        waited = False
        with self._turn:
            while True:
                if reason := circuit_breaker.open_reason(self.fleet(node)):
                    raise Deferred(self._once(node.name, reason))
                if len(self.inside) < node.spec.reprovision.max_unavailable:
                    break
                waited = True
                self._turn.wait()
            if reason := circuit_breaker.floor_reason(self.fleet(node), node.name, serves):
                raise Deferred(f"not taken out: {reason}")
            self.inside.add(node.name)
        return waited

    def leave(self, name: str) -> None:
        """The node is done, or stays out with no more to be done: the next one's turn."""
        with self._turn:
            self.inside.discard(name)
            self._turn.notify_all()

    def fleet(self, node: Node) -> Fleet:
        """The fleet as this node's limits see it."""
        limits = node.spec.reprovision
        out, causes, unread = self._elsewhere()
        return Fleet(
            nodes=max(len(self.inventory), 1),
            out=out | self.inside,
            unread=unread,
            failing={**causes, **self.failing},
            max_unavailable=limits.max_unavailable,
            max_same_cause=limits.max_same_cause,
            floor=limits.min_available,
        )

    def _elsewhere(self) -> tuple[set[str], dict[str, str], set[str]]:
        """Nodes that a transaction keeps out of service, whoever began it, and their causes.

        A node whose transaction cannot be read may be out, and so counts; they come once more.
        """
        names = {safe_name(name): name for name in self.inventory}
        still, unread = {}, set()
        for name in (names[file] for file in ledger.nodes(self.folder) if file in names):
            try:
                tx = ledger.read(self.folder, name)
            except ledger.Damaged:
                unread.add(name)
                continue
            if tx.is_open:
                still[name] = tx.cause
        causes = {name: cause for name, cause in still.items() if cause}
        return {*still, *unread}, causes, unread

    def _once(self, name: str, reason: str) -> str:
        """The whole line for the first node it stops, and where to find it for the others."""
        first = self.announced.setdefault(reason, name)
        return reason if first == name else f"not taken out: the breaker is open, see {first}"


SAFETY = Safety()
