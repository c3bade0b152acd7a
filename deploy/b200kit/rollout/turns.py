"""Which nodes of this process wait for their wave, and when it begins.

A wave begins when all of the one before it have ended, and none once the change was bad on as many
nodes as `stop_after` says. pyinfra's gevent makes threads greenlets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from b200kit.rollout.waves import Wave
from b200kit.run.node import StageFailed

# A node that leaves the run in pyinfra, not here, is seen after as long.
_LOOK_S = 0.5


class NotChanged(StageFailed):
    """A node that is left as it serves, in one line."""


@dataclass
class Turns:
    """The waves, and how the nodes that had their turn ended.

    *lost*: whether a node has no turn any more, or never had one. One that has its turn is not:
    until it leaves nobody knows how it ended.
    """

    waves: Sequence[Wave]
    stop_after: int
    lost: Callable[[str], bool]
    bad: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    _at_work: set[str] = field(default_factory=set)
    _over: int = 0
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def number(self, name: str) -> int:
        """The number of a node's wave, from 1."""
        return next((n for n, wave in enumerate(self.waves, 1) if name in wave.nodes), 1)

    def wait(self, name: str) -> bool:
        """Wait for the node's wave; returns whether it had to. Raises NotChanged."""
        number, waited = self.number(name), False
        with self._turn:
            while True:
                if reason := self._stopped():
                    raise NotChanged(reason)
                if self._begun() >= number:
                    self._at_work.add(name)
                    return waited
                waited = True
                self._turn.wait(_LOOK_S)

    def leave(self, name: str, bad: str = "") -> None:
        """The node's turn is over; *bad* says why the change was not good."""
        with self._turn:
            self.ended.add(name)
            self._at_work.discard(name)
            if bad:
                self.bad[name] = bad
            self._turn.notify_all()

    def _begun(self) -> int:
        """The number of the newest wave that may go; those before it have ended and stay so."""
        while self._over < len(self.waves):
            nodes = self.waves[self._over].nodes
            if not all(map(self._is_over, nodes)):
                break
            self._over += 1
        return self._over + 1

    def _is_over(self, node: str) -> bool:
        return node in self.ended or (node not in self._at_work and self.lost(node))

    def _stopped(self) -> str:
        if len(self.bad) < self.stop_after:
            return ""
        name, why = next(iter(self.bad.items()))
        return stopped_line(name, why)


def stopped_line(name: str, why: str) -> str:
    """Why no further node is changed, and the ways on."""
    return (
        f"not changed, it serves what it served: the rollout stopped at {name} ({why}). Change the "
        "inventory, or run with --data rollout_action=resume to try again, or =abort to give it up"
    )
