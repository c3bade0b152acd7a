"""Which replica makes its tokens more slowly than the others of its node. Pure.

Replicas of a node are alike, and the gateway gives them equal shares: what the others take for a
token is what one should take. The figures are the engine's own (sum and count of the time between
two tokens, over all its requests), so nothing is asked of it. Of two that differ nobody knows which
is at fault: one whose tokens come in bursts makes the other look slow (seen in the lab). So at
least two others must have made tokens at the same time and be alike; the node's record tells
otherwise (smoke.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple


class Reading(NamedTuple):
    """Counters of one engine at a time: seconds between tokens, summed up, and how many."""

    at: float
    seconds: float
    gaps: float


@dataclass
class Pace:
    """The replicas' counters of the last while, by name.

    factor: how many times the median of the others is too slow. least: gaps between tokens within
    window_s, below which a replica is not judged, nor are others by it.
    """

    factor: float = 3.0
    window_s: float = 30.0
    least: int = 50
    _read: dict[str, deque[Reading]] = field(default_factory=dict)

    def note(self, name: str, reading: Reading) -> None:
        """Remember what a replica's counters say now; lower ones are those of a new process."""
        known = self._read.setdefault(name, deque())
        if known and reading.gaps < known[-1].gaps:
            known.clear()
        known.append(reading)
        while len(known) > 2 and known[1].at <= reading.at - self.window_s:
            known.popleft()

    def behind(self, name: str, now: float) -> str:
        """Why a replica counts as slow; empty where it does not, or where that is not known."""
        own = self._mean_ms(name, now)
        others = [self._mean_ms(other, now) for other in self._read if other != name]
        known = [mean for mean in others if mean]
        if own is None or len(known) < 2 or max(known) > self.factor * min(known):
            return ""
        usual = median(known)
        times = own / usual
        if times <= self.factor:
            return ""
        return f"ITL {own:.3g} ms where the others take {usual:.3g} ms, {times:.1f} times as long"

    def _mean_ms(self, name: str, now: float) -> float | None:
        """Mean time between two tokens over the window, ms; None where too few were made."""
        known = self._read.get(name)
        if not known or known[-1].at < now - self.window_s:
            return None
        gaps = known[-1].gaps - known[0].gaps
        seconds = known[-1].seconds - known[0].seconds
        return seconds / gaps * 1000 if gaps >= self.least else None
