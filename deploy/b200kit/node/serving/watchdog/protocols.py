"""What a watched replica needs of the node: who asks it, and what can be done."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from b200kit.node.serving.watchdog.probe import ProbeResult
from b200kit.node.state.event import Event
from b200kit.node.state.serving import Replica
from b200kit.node.state.watchdog import ReplicaUnit


class Probes(Protocol):
    """Asks a replica whether it is alive."""

    async def probe(self) -> ProbeResult:
        """One look."""

    async def is_idle(self) -> bool:
        """Whether it is known to have no request."""


class Acts(Protocol):
    """What can be done to a node (b200kit/node/serving/watchdog/effects.py)."""

    async def unit(self, unit: str) -> ReplicaUnit:
        """State of a unit."""

    async def take_out_of_rotation(self, server: str) -> str | None:
        """Out of the gateway."""

    async def put_back(self, server: str) -> str | None:
        """Into the gateway."""

    async def collect(self, replica: Replica) -> str:
        """Evidence."""

    async def abort(self, replica: Replica, evidence: str) -> None:
        """Python's stacks, with the process's last breath."""

    async def restart(self, unit: str, within_s: float) -> str | None:
        """Restart, and warm."""

    def held(self, index: int) -> str | None:
        """The confirmed fault of the node that keeps a replica out; None: not known."""

    def is_marked(self) -> bool:
        """Whether the node is marked."""

    def mark(self, why: str, evidence: str) -> None:
        """Mark it."""

    def no_rolling_restart(self) -> AbstractContextManager[bool]:
        """No rolling restart meanwhile."""

    def tell(self, event: Event) -> None:
        """Tell the site."""
