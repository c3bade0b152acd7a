"""The exact interval of a share that was counted. Pure; standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from b200kit.node.client.percentiles import CONFIDENCE, binomial

_NEGLIGIBLE = 1e-15


# A sweep asks for the same share again with each of its points.
@lru_cache(maxsize=4096)
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
    """Probability of at most *hits* of *trials*: the tail that is the smaller one is summed."""
    if not 0 < share < 1:
        return float(share <= 0 or hits >= trials)
    odds = share / (1 - share)
    if hits < trials * share:
        steps = (k / (trials - k + 1) / odds for k in range(hits, 0, -1))
        return _tail(binomial(trials, hits, share), steps)
    steps = ((trials - k) / (k + 1) * odds for k in range(hits + 1, trials))
    return 1 - _tail(binomial(trials, hits + 1, share), steps) if hits < trials else 1.0


def _tail(term: float, steps: Iterable[float]) -> float:
    """The sum of terms that only become less, each the one before it times a step."""
    total = term
    for step in steps:
        term *= step
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return total
