"""Percentiles with sample-size honesty. Pure; standard library only. Pure.

`percentile` gives the same number as numpy's default ("linear") method, which `vllm bench serve`
uses. `rank_interval` says which order statistics enclose the true quantile (distribution free,
from the binomial distribution), and `carries` is the one rule for stating a percentile at all:

    n samples carry the quantile q when  q**n <= 0.05,

that is, when the chance that not one sample lies above the true quantile is at most 5 %:
n >= 59 for P95, n >= 299 for P99. Below that the "P99" of a sample is merely its maximum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CARRY_RISK = 0.05
CONFIDENCE = 0.95


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


@dataclass(frozen=True)
class RankInterval:
    """1-based ranks of the order statistics that enclose a quantile; None where no rank does."""

    low: int | None
    high: int | None


def rank_interval(samples: int, percent: float, confidence: float = CONFIDENCE) -> RankInterval:
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
    return RankInterval(low, high)


def interval(values: Sequence[float], percent: float) -> tuple[float | None, float | None]:
    """95 % confidence interval of a percentile, in the values' own unit; None = unbounded."""
    ordered = sorted(values)
    ranks = rank_interval(len(ordered), percent)
    low = None if ranks.low is None else ordered[ranks.low - 1]
    high = None if ranks.high is None else ordered[ranks.high - 1]
    return low, high


def binomial(trials: int, hits: int, share: float) -> float:
    """Binomial probability, by logarithms: thousands of trials would overflow otherwise."""
    if share <= 0 or share >= 1:
        return float(hits == (trials if share >= 1 else 0))
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return math.exp(ways + hits * math.log(share) + (trials - hits) * math.log1p(-share))
