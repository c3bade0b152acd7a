"""What of a measured run is compared with other runs', and how far it may be from them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
TAILS = {f"p{q}_{m}": f"{name} P{q}" for q in (95, 99) for m, name in METRICS.items()}
"""Compared where every run carries them."""
REPLICA_METRICS = ("tpot", "ttft")
"""Medians of each replica asked directly; in a run's figures "direct-0 tpot" is by how much it is
slower than the others, as a factor."""
SHARES = {
    "missed": "requests over the objective",
    "late": "requests beyond twice the median E2E",
}
NAMES = {**METRICS, **TAILS, **SHARES}
MARGIN, TAIL_MARGIN, SHARE_MARGIN = 0.05, 0.15, 0.03


@dataclass(frozen=True)
class Measured:
    """A run: its day, and its figures by their keys in NAMES; ms, and shares of requests."""

    day: str
    figures: Mapping[str, float]

    def has(self, name: str) -> bool:
        """Whether it is there; a latency of 0 is none."""
        return self.figures.get(name, -1.0) >= 0 and (name in SHARES or self.figures[name] > 0)


def of_replicas(run: Measured) -> list[str]:
    """The names of its replicas' figures."""
    return sorted(name for name in run.figures if is_of_replica(name))


def is_of_replica(name: str) -> bool:
    """Whether it is a replica's own, a factor."""
    return name.startswith("direct")


def words(name: str) -> str:
    """A metric as a person reads it: "TPOT", "direct-0 TPOT"."""
    path, _, metric = name.rpartition(" ")
    return f"{path} {NAMES.get(metric, metric)}".strip()


def margin(name: str) -> float:
    """How far two groups may be apart: a logarithm of a ratio, or a difference of shares."""
    if name in SHARES:
        return SHARE_MARGIN
    return math.log1p(TAIL_MARGIN if name in TAILS else MARGIN)


def ratio_of(name: str, shift: float) -> float:
    """The ratio of a logarithm; of a difference of shares, 1 + that."""
    return 1 + shift if name in SHARES else math.exp(shift)


def percent(ratio: float) -> str:
    """A ratio as a change: "+7.0 %"."""
    return f"{(ratio - 1) * 100:+.1f} %"


def change(name: str, ratio: float) -> str:
    """A metric's change: a share's is in percentage points."""
    return f"{(ratio - 1) * 100:+.1f} pp" if name in SHARES else percent(ratio)
