"""The exact interval of a share that was counted. Pure; standard library only."""

from __future__ import annotations

import math
from collections.abc import Callable

from b200kit.node.client.percentiles import CONFIDENCE, binomial


def proportion(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact two-sided interval of a share (Clopper and Pearson, 1934)."""
    if trials <= 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    # One-sided where the share is at its end: all of 59 good is at least 95 % good.
    if hits == trials:
        return (2 * tail) ** (1 / trials), 1.0
    if hits == 0:
        return 0.0, 1 - (2 * tail) ** (1 / trials)
    low = _solve(lambda p: 1 - _below(hits - 1, trials, p), tail)
    high = _solve(lambda p: 1 - _below(hits, trials, p), 1 - tail)
    return low, high


def _solve(rising: Callable[[float], float], level: float) -> float:
    """Where a function that rises from 0 to 1 over [0, 1] has a level."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2


def _below(hits: int, trials: int, share: float) -> float:
    """Probability of at most *hits* of *trials*."""
    return math.fsum(binomial(trials, k, share) for k in range(hits + 1))
