"""How much counters grew from one health check to the next while a node serves. Pure.

A level says what happened since the driver was loaded, a rate what happens now. A rate of a few a
minute takes a minute to see, so counters are compared with those of a health check that long ago.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from b200kit.node.state.view import StateView

PERIOD_S = 60.0
"""What a rate is taken over, at least: DCGM's limit is one a minute."""


@dataclass(frozen=True)
class Growth:
    """By how much counters grew within so many seconds, by UUID.

    A GPU whose counter fell or could not be read has none.
    """

    seconds: float
    pcie_replays: Mapping[str, int]


@dataclass(frozen=True)
class Counters:
    """Counters to compare with, by UUID, of a health check at *boot_s* seconds since the boot.

    *growth*: None before two health checks were far enough apart.
    """

    boot_s: float
    pcie_replays: Mapping[str, int] = field(default_factory=dict)
    growth: Growth | None = None

    def then(self, state: object, now: float) -> Counters:
        """After a health check at *now*: the same until a period is over."""
        seconds = now - self.boot_s
        if seconds < PERIOD_S:
            return self
        counts = replays(state)
        pairs = {uuid: (self.pcie_replays[uuid], n) for uuid, n in counts.items() if uuid in self}
        grown = {uuid: n - before for uuid, (before, n) in pairs.items() if n >= before}
        return Counters(now, counts, Growth(seconds, grown))

    def __contains__(self, uuid: str) -> bool:
        return uuid in self.pcie_replays


def after(kept: Counters | None, state: object, now: float) -> Counters:
    """What the check before kept, with this check; from this check on where it kept nothing."""
    return kept.then(state, now) if kept else Counters(now, replays(state))


def replays(state: object) -> dict[str, int]:
    """PCIe replays by UUID, of the GPUs that tell both."""
    gpus = StateView(state).known_gpus
    read = {gpu.known(str, "uuid"): gpu.known(int, "pcie", "replays") for gpu in gpus}
    return {uuid: count for uuid, count in read.items() if uuid and count is not None}
