"""Each replica against its sisters: which one is slower, and what would have been found. Pure.

All replicas get the same load at the same time, so that only what is a replica's own tells them
apart. Compared is the median of each metric with the median of the others' medians, on logarithms,
with a spread that is pooled over all replicas. `tests/unit/node/client/test_replicas.py` simulates
how often it is wrong (docs/measure.md has the table).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from b200kit.node.client import false_red

Series = Mapping[str, Sequence[float]]
"""Samples in milliseconds by metric, one a completed request (`Run.series`)."""
METRICS = ("tpot", "ttft")
_USUAL = 0.2
"""Part of the slow-down to be found that healthy replicas may differ by (inferred)."""
_FOUND = 0.95
# Requests that overlap share what happens to them: the variance of their median is larger than
# that of independent ones by about this (a correlation of 0.4 between neighbours; inferred).
_TOGETHER = 2.0
# Of a median against a mean; of a standard deviation against a median of distances (normal).
_OF_MEDIAN, _OF_MAD = math.sqrt(math.pi / 2), 1.4826
_FEWEST = 5
# Chunks that came together have no time between them, and a logarithm wants one.
_LEAST_MS = 0.001


@dataclass(frozen=True)
class Compared:
    """A metric of one replica against the others.

    ratio: its median over the median of theirs; ratio_at_least: what it is at least, at
    `false_red.REPLICAS` over all comparisons of a run. slower: than healthy replicas may be.
    """

    path: str
    metric: str
    median_ms: float
    others_ms: float
    ratio: float
    ratio_at_least: float
    n: int
    slower: bool


@dataclass(frozen=True)
class Comparison:
    """All of a run.

    error: of the logarithm of a ratio of the metric that decides; None: too few requests for any.
    fewest: completed requests of the replica with fewest. wanted: the slow-down to be found.
    """

    compared: tuple[Compared, ...]
    error: float | None
    fewest: int
    wanted: float

    @property
    def slower(self) -> list[Compared]:
        """Those that are, the slowest first."""
        found = [each for each in self.compared if each.slower]
        return sorted(found, key=lambda each: -each.ratio)

    @property
    def _reach(self) -> float:
        """Standard errors by which a slow replica must stand out to be found."""
        return _limit(len(self.compared)) + NormalDist().inv_cdf(_FOUND)

    @property
    def finds(self) -> float | None:
        """The least slow-down of one replica that 95 of 100 such runs find; None: none."""
        if self.error is None:
            return None
        return (1 + self.wanted * _USUAL) * math.exp(self._reach * self.error) - 1

    @property
    def needed(self) -> int:
        """About how many requests a replica would find the slow-down that is wanted."""
        if self.error is None:
            return _FEWEST
        room = math.log((1 + self.wanted) / (1 + self.wanted * _USUAL))
        return math.ceil(self.fewest * (self._reach * self.error / room) ** 2)

    @property
    def is_decided(self) -> bool:
        """Whether one is slower, or would have been found."""
        return bool(self.slower) or (self.finds is not None and self.finds <= self.wanted)

    def kept(self) -> ReplicaComparison:
        """As a result keeps it."""
        return ReplicaComparison(self.compared, self.finds, self.wanted)


@dataclass(frozen=True)
class ReplicaComparison:
    """Each replica against the others, and the slow-downs that are found and were to be."""

    compared: tuple[Compared, ...]
    finds_slowdown: float | None
    wanted_slowdown: float


def compare(series: Mapping[str, Series], wanted: float) -> Comparison:
    """Compare two or more replicas by path; *wanted*: a slow-down to be found, as a share.

    Tokens decide; where answers are of one token, the first one does.
    """
    samples = {
        metric: {name: _logarithms(each[metric]) for name, each in series.items()}
        for metric in METRICS
        if all(len(each[metric]) >= _FEWEST for each in series.values())
    }
    errors = {metric: _error(list(of.values())) for metric, of in samples.items()}
    limit = _limit(len(samples) * len(series))
    compared = tuple(
        _compared(name, metric, of, limit * errors[metric], wanted * _USUAL)
        for metric, of in samples.items()
        for name in of
    )
    fewest = min(len(each["ttft"]) for each in series.values())
    return Comparison(compared, next(iter(errors.values()), None), fewest, wanted)


def _logarithms(values: Sequence[float]) -> list[float]:
    return [math.log(max(value, _LEAST_MS)) for value in values]


def _compared(
    path: str, metric: str, of: Mapping[str, Sequence[float]], margin: float, usual: float
) -> Compared:
    own = median(of[path])
    others = median(median(values) for other, values in of.items() if other != path)
    ratio = math.exp(own - others)
    low = ratio * math.exp(-margin)
    return Compared(
        path, metric, round(math.exp(own), 3), round(math.exp(others), 3), round(ratio, 4),
        round(low, 4), len(of[path]), slower=low > 1 + usual,
    )  # fmt: skip


def _error(groups: Sequence[Sequence[float]]) -> float:
    """The standard error of the difference of one median from that of the others."""
    distances = [abs(value - median(group)) for group in groups for value in group]
    fewest = min(map(len, groups))
    # Of a small group the median is nearer to its members than the true one is.
    spread = _OF_MAD * median(distances) * math.sqrt(fewest / (fewest - 1))
    one = _OF_MEDIAN * spread * math.sqrt(_TOGETHER / fewest)
    others = len(groups) - 1
    return one * math.sqrt(1 + (_OF_MEDIAN**2 if others > 2 else 1) / others)


def _limit(comparisons: int) -> float:
    """Standard errors beyond which one of so many is no chance (Bonferroni, one-sided)."""
    return NormalDist().inv_cdf(1 - false_red.REPLICAS / max(comparisons, 1))
