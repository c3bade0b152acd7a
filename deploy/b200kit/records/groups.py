"""Where a group of runs lies, and how surely: by days, and without its extremes. Pure.

- *Days*: runs of one day share it. From DAYS days on, each day's median is one observation. With
  fewer, days are taken to differ by ASSUMED, or by as much as those that there are.
- *Extremes*: a tenth of the observations at either end, at least one, is left out: the centre is
  the trimmed mean, and its error the one of Yuen (1974), from the winsorised variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from b200kit.node.client.percentiles import deviation, mean

LEAST = 5
"""Runs of a group that are too few for any statement (quoted: repeat at least five times)."""
DAYS = 7
"""Days from which a group itself shows how far days are apart (simulated)."""
ASSUMED = 0.03
"""Spread between days, as a share, where a group does not show it (assumed)."""
_MOST_FREEDOM = 200
# Of a standard deviation against a median of distances (normal).
_OF_MAD = 1.4826

Dated = Sequence[tuple[str, float]]
"""Each run's day and value: a logarithm where days are taken to differ by a share."""


@dataclass(frozen=True)
class Located:
    """A group. own: variance of one observation; of: how many count. between: variance of days
    that the observations do not show; days: how many there are.
    """

    centre: float
    own: float
    of: int
    between: float
    days: int

    @property
    def parts(self) -> tuple[float, float]:
        """The variance of the centre: what the observations show, and what they do not."""
        return self.own / self.of, self.between / self.days

    @property
    def of_one_more(self) -> tuple[float, int]:
        """Standard error of one more run of another day against the centre, and its freedom."""
        seen, unseen = self.parts
        return error([(seen + self.own, self.of - 1)], unseen + self.between)


def located(runs: Dated, assumed: float = ASSUMED) -> Located:
    """Describe at least LEAST runs."""
    days: dict[str, list[float]] = {}
    for day, value in runs:
        days.setdefault(day, []).append(value)
    medians = [median(of) for of in days.values()]
    if len(days) >= DAYS:
        return _located(medians, 0.0, len(days))
    seen = _OF_MAD * median(abs(value - median(medians)) for value in medians) if assumed else 0.0
    return _located([value for _, value in runs], max(assumed, seen) ** 2, len(days))


def _located(values: Sequence[float], between: float, days: int) -> Located:
    n, g = len(values), trimmed(len(values))
    ordered = sorted(values)
    kept = ordered[g : n - g]
    winsorised = [*[kept[0]] * g, *kept, *[kept[-1]] * g]
    h = len(kept)
    return Located(mean(kept), deviation(winsorised) ** 2 * n / (h - 1), h, between, days)


def trimmed(n: int) -> int:
    """Observations left out at either end; none of too few for any statement."""
    return max(1, n // 10) if n >= LEAST else 0


def error(seen: Sequence[tuple[float, int]], unseen: float = 0.0) -> tuple[float, int]:
    """The root of summed variances and its degrees of freedom, rounded down (Satterthwaite).

    seen: variances with the freedom of each; unseen: one that is taken as known.
    """
    total = math.fsum(part for part, _ in seen) + unseen
    below = math.fsum(part**2 / freedom for part, freedom in seen)
    if not below:
        return math.sqrt(total), _MOST_FREEDOM
    return math.sqrt(total), max(1, min(_MOST_FREEDOM, math.floor(total**2 / below)))
