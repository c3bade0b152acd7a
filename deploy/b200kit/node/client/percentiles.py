"""Percentiles with sample-size honesty. Pure; standard library only.

`percentile` gives the same number as numpy's default ("linear") method, which `vllm bench serve`
uses. `rank_interval` says which order statistics enclose the true quantile (distribution free,
from the binomial distribution), and `carries` is the one rule for stating a percentile at all:

    n samples carry the quantile q when  q**n <= 0.05,

that is, when the chance that not one sample lies above the true quantile is at most 5 %:
n >= 59 for P95, n >= 299 for P99. Below that the "P99" of a sample is merely its maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

CARRY_RISK = 0.05
CONFIDENCE = 0.95
Ranks = tuple[int | None, int | None]
"""1-based ranks of the order statistics that enclose a quantile; None where no rank does."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The `percent`-th percentile (0..100) of `values`, numpy's "linear" method.

    `values` need not be sorted. Raises ValueError when it is empty or `percent` out of range.
    """
    if not values:
        raise ValueError("percentile of no values")
    if not 0 <= percent <= 100:
        raise ValueError(f"percent must be 0..100, not {percent}")
    ordered = sorted(values)
    position = percent / 100 * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    share = position - low
    below, above = ordered[low], ordered[high]
    # numpy interpolates from the nearer end, so that the result is monotonic in `share`
    if share >= 0.5:
        return above - (above - below) * (1 - share)
    return below + (above - below) * share


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean. Raises ValueError when there are no values."""
    if not values:
        raise ValueError("mean of no values")
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Population standard deviation (numpy's `std`, ddof=0)."""
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / len(values))


def carries(samples: int, percent: float) -> bool:
    """Whether a sample of this size carries the percentile (rule in the module's head)."""
    return samples > 0 and (percent / 100) ** samples <= CARRY_RISK


def needed(percent: float) -> int:
    """The smallest sample that carries the percentile: 5 for P50, 59 for P95, 299 for P99."""
    return math.ceil(math.log(CARRY_RISK) / math.log(percent / 100))


def note(samples: int, percent: float) -> str | None:
    """One line for a reader when the sample does not carry the percentile, else None."""
    if carries(samples, percent):
        return None
    missed = (percent / 100) ** samples
    return (
        f"n={samples} does not carry P{percent:g} (needs {needed(percent)}): in {missed:.0%} of"
        f" such runs no sample lies above the true P{percent:g}"
    )


# A run asks for the same of each of its latencies.
@lru_cache(maxsize=64)
def rank_interval(samples: int, percent: float, confidence: float = CONFIDENCE) -> Ranks:
    """Ranks enclosing the true percentile with at least `confidence` (two-sided, equal tails).

    The number of samples at or below the true q-quantile is binomial(n, q). With n=1000 and
    percent=99 this gives ranks 983 and 997, with n=100 no upper rank at all.
    """
    tail = (1 - confidence) / 2
    share = percent / 100
    low: int | None = None
    high: int | None = None
    cumulative = 0.0
    for count in range(samples):
        cumulative += binomial(samples, count, share)
        if cumulative <= tail:
            low = count + 1
        if high is None and cumulative >= 1 - tail:
            high = count + 1
    return low, high


def interval(values: Sequence[float], percent: float) -> tuple[float | None, float | None]:
    """95 % confidence interval of a percentile, in the values' own unit; None = unbounded."""
    ordered = sorted(values)
    low, high = (
        None if n is None else ordered[n - 1] for n in rank_interval(len(ordered), percent)
    )
    return low, high


def binomial(trials: int, hits: int, share: float) -> float:
    """Binomial probability, by logarithms: thousands of trials would overflow otherwise."""
    if share <= 0 or share >= 1:
        return float(hits == (trials if share >= 1 else 0))
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return math.exp(ways + hits * math.log(share) + (trials - hits) * math.log1p(-share))


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
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2


def _below(hits: int, trials: int, share: float) -> float:
    """Probability of at most *hits* of *trials*."""
    return math.fsum(binomial(trials, count, share) for count in range(hits + 1))
