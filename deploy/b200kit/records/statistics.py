"""Whether two groups of runs show the same latency: same, different, or not enough to say. Pure.

The run is the unit, never the request: requests of one run share its server, its caches and its
hour. Runs of one day share that, too (`located`). Compared is the ratio of the
groups' centres on a log scale (Welch's unequal variances), and the difference of shares:

- *same*: two one-sided tests (TOST) put medians within +-MARGIN, P95 and P99 within +-TAIL_MARGIN,
  shares of requests within +-SHARE_MARGIN, at 5 % each. Every one must pass: the error stays 5 %.
- *different*: one lies beyond its margin, and its interval leaves out no change, at 5 % over all
  together (Bonferroni).
- *unclear*: everything else. Too few runs, too much spread, two modes: never "same" by default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import ClassVar

from b200kit.node.client.percentiles import deviation, mean, percentile
from b200kit.node.client.smoke_result import Predicted

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
TAILS = {f"p{q}_{m}": f"{name} P{q}" for q in (95, 99) for m, name in METRICS.items()}
"""Compared where every run carries them."""
SHARES = {
    "missed": "requests over the objective",
    "late": "requests beyond twice the median E2E",
}
NAMES = {**METRICS, **TAILS, **SHARES}
MARGIN, TAIL_MARGIN, SHARE_MARGIN = 0.05, 0.15, 0.03

RISK = 0.05
RISK_OF_RUN = 0.0025
"""Of one unchanged run to be called slower than its baseline, over all medians together."""

_ROUNDING = 1e-9
_APART = 2.0
"""Two modes are this many times further apart than either is wide (inferred)."""


class ComparisonOutcome(StrEnum):
    """The three outcomes of a comparison."""

    SAME = "same"
    DIFFERENT = "different"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Spread:
    """A group of runs in one metric: median of the run medians, least and most, in ms; CV."""

    runs: int
    median: float
    low: float
    high: float
    cv: float
    apart: int = 0
    """Runs that lie further than twice MARGIN from the median."""
    modes: tuple[tuple[int, float], ...] = ()
    """Runs and median of the fast and of the slow mode; empty where there is but one."""


@dataclass(frozen=True)
class Compared:
    """One metric of two groups. ratio 1.07 is 7 % slower, a share has 1 + difference; interval is
    the 90 % one of that.
    """

    metric: str
    outcome: ComparisonOutcome
    before: Spread
    after: Spread
    ratio: float
    interval: tuple[float, float]
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """All metrics; `slower` names those that are different and slower."""

    derived: ClassVar[tuple[str, ...]] = ("slower",)

    outcome: ComparisonOutcome
    why: str
    metrics: tuple[Compared, ...] = ()

    @property
    def slower(self) -> tuple[str, ...]:
        """Metrics that got worse."""
        wrong = (
            m for m in self.metrics if m.outcome is ComparisonOutcome.DIFFERENT and m.ratio > 1
        )
        return tuple(m.metric for m in wrong)


def spread(values: Sequence[float]) -> Spread:
    """Describe a group of run medians, at least one, none below 0."""
    centre = percentile(values, 50)
    sample = math.sqrt(len(values) / (len(values) - 1)) if len(values) > 1 else 0.0
    cv = deviation(values) * sample / mean(values) if any(values) else 0.0
    apart = sum(abs(value - centre) > 2 * MARGIN * centre for value in values)
    return Spread(len(values), centre, min(values), max(values), cv, apart, modes(values))


def modes(values: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """The two modes that runs fall into, or none: a mean of two modes is no run's latency.

    The widest gap must exceed twice MARGIN, and be _APART times as wide as either side of it. So
    few runs as are left out anyway are no mode.
    """
    ordered = sorted(values)
    gaps = [after - before for before, after in pairwise(ordered)]
    if len(ordered) < 3:
        return ()
    at = gaps.index(max(gaps)) + 1
    low, high = ordered[:at], ordered[at:]
    if min(len(low), len(high)) <= trimmed(len(ordered)):
        return ()
    wide = max(low[-1] - low[0], high[-1] - high[0])
    if gaps[at - 1] <= max(2 * MARGIN * percentile(ordered, 50), _APART * wide):
        return ()
    return tuple((len(side), percentile(side, 50)) for side in (low, high))


def compare(before: Sequence[RunFigures], after: Sequence[RunFigures]) -> Comparison:
    """Compare two groups of runs.

    A median that a run does not have is not compared, and makes the whole unclear.
    """
    both = [*before, *after]
    if few := _few(before, after):
        return Comparison(ComparisonOutcome.UNCLEAR, few)
    missing = [
        m for m in METRICS if any(r.has(m) for r in both) and not all(r.has(m) for r in both)
    ]
    judged = [m for m in NAMES if all(r.has(m) for r in both)]
    if not set(judged) & set(METRICS):
        return Comparison(ComparisonOutcome.UNCLEAR, "the runs have no metric in common")
    found = [_one(m, before, after, len(judged)) for m in judged]
    return _together(found, missing)


def expected(before: Sequence[RunFigures], run: RunFigures) -> dict[str, Predicted]:
    """Whether one run lies where the baseline's let expect it, in ms; of medians that all have."""
    judged = [m for m in METRICS if run.has(m) and all(r.has(m) for r in before)]
    if len(before) < LEAST:
        return {}
    return {m: _predicted(before, run, m, len(judged)) for m in judged}


def slower(before: Sequence[RunFigures], run: RunFigures) -> dict[str, Predicted]:
    """The metrics in which one run is slower than `expected`, and by more than MARGIN."""
    return {
        m: one
        for m, one in expected(before, run).items()
        if one.value > max(one.high, one.usual * (1 + MARGIN))
    }


def _predicted(before: Sequence[RunFigures], run: RunFigures, name: str, metrics: int) -> Predicted:
    group = located([(r.day, math.log(r.figures[name])) for r in before])
    deviation_, freedom = group.of_one_more
    half_width = deviation_ * quantile(1 - 2 * RISK_OF_RUN / metrics, freedom)
    low, high = (math.exp(group.centre + sign * half_width) for sign in (-1, 1))
    value, usual = run.figures[name], math.exp(group.centre)
    inside = abs(math.log(value) - group.centre) <= half_width + _ROUNDING
    return Predicted(value, usual, low, high, inside)


def _few(before: Sequence[object], after: Sequence[object]) -> str:
    """Why two groups are too small to compare, or nothing."""
    if min(len(before), len(after)) >= LEAST:
        return ""
    there = f"there are {len(before)} accepted and {len(after)} newer"
    return f"not enough runs to say: {LEAST} of each are needed, {there}"


def _together(found: list[Compared], missing: list[str]) -> Comparison:
    """One outcome over all metrics."""
    changed = [m for m in found if m.outcome is ComparisonOutcome.DIFFERENT]
    open_ = [m for m in found if m.outcome is ComparisonOutcome.UNCLEAR]
    metrics = tuple(found)
    if changed:
        changes = ", ".join(f"{NAMES[m.metric]} {change(m.metric, m.ratio)}" for m in changed)
        return Comparison(ComparisonOutcome.DIFFERENT, changes, metrics)
    if open_:
        why = "; ".join(dict.fromkeys(f"{NAMES[m.metric]}: {m.why}" for m in open_))
        return Comparison(ComparisonOutcome.UNCLEAR, why, metrics)
    if missing:
        why = f"not every run has {', '.join(METRICS[m] for m in missing)}"
        return Comparison(ComparisonOutcome.UNCLEAR, why, metrics)
    worst = max((m for m in found if m.metric in METRICS), key=lambda m: abs(math.log(m.ratio)))
    why = f"all within +-{MARGIN:.0%}; most in {METRICS[worst.metric]}, {percent(worst.ratio)}"
    tails = any(m.metric in TAILS for m in found)
    alone = "" if tails else "; medians alone, no tail is carried by every run"
    return Comparison(ComparisonOutcome.SAME, why + alone, metrics)


def _one(
    name: str, before: Sequence[RunFigures], after: Sequence[RunFigures], metrics: int
) -> Compared:
    """One metric; the risk of a false "different" is shared by *metrics*."""
    shift, deviation_, freedom = _welch(name, before, after)
    half_width = deviation_ * quantile(1 - 2 * RISK, freedom)
    ratio, *ends = (
        ratio_of(name, each) for each in (shift, shift - half_width, shift + half_width)
    )
    groups = [spread([run.figures[name] for run in runs]) for runs in (before, after)]
    interval = (ends[0], ends[1])
    result = Compared(name, ComparisonOutcome.UNCLEAR, groups[0], groups[1], ratio, interval)
    beyond = abs(shift) > margin(name)
    if beyond and abs(shift) > deviation_ * quantile(1 - RISK / metrics, freedom):
        return replace(result, outcome=ComparisonOutcome.DIFFERENT)
    if name in METRICS and (groups[0].modes or groups[1].modes):
        which, group = ("newer", groups[1]) if groups[1].modes else ("accepted", groups[0])
        (few, low), (many, high) = group.modes
        sizes = f"{few} near {low:.3g} ms, {many} near {high:.3g} ms"
        return replace(result, why=f"the {which} runs fall into two modes ({sizes})")
    if abs(shift) + half_width <= margin(name):
        return replace(result, outcome=ComparisonOutcome.SAME)
    return replace(result, why=_open(name, interval))


def _open(name: str, interval: tuple[float, float]) -> str:
    """Why an interval neither lies within the margin nor shows a difference."""
    span = " to ".join(change(name, end) for end in interval)
    return f"anything from {span} is possible; more runs, on more days, would say"


def _welch(
    name: str, before: Sequence[RunFigures], after: Sequence[RunFigures]
) -> tuple[float, float, int]:
    """How far the groups are apart, the standard error of that, and its degrees of freedom."""
    share = name in SHARES
    one, two = (
        located(
            [(r.day, r.figures[name] if share else math.log(r.figures[name])) for r in runs],
            0.0 if share else ASSUMED,
        )
        for runs in (before, after)
    )
    seen = [(group.parts[0], group.of - 1) for group in (one, two)]
    return two.centre - one.centre, *error(seen, one.parts[1] + two.parts[1])


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


def inside(t: float, freedom: int) -> float:
    """The probability that |T| <= t, for t >= 0 and at least one degree of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2 == 0:
        return sine * _series(cosine, freedom // 2, first=1)
    if freedom == 1:
        return 2 * angle / math.pi
    return 2 / math.pi * (angle + sine * cosine * _series(cosine, (freedom - 1) // 2, first=2))


def _series(cosine: float, terms: int, first: int) -> float:
    """1 + f/(f+1) c^2 + f(f+2)/((f+1)(f+3)) c^4 + ..., *terms* terms, beginning with f = first."""
    total, term = 0.0, 1.0
    for step in range(terms):
        total += term
        above = first + 2 * step
        term *= above / (above + 1) * cosine * cosine
    return total


@lru_cache(maxsize=4096)
def quantile(confidence: float, freedom: int) -> float:
    """The t that |T| does not pass with probability *confidence* (two-sided), 0 < it < 1."""
    low, high = 0.0, 1.0
    while inside(high, freedom) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle, freedom) < confidence else (low, middle)
    return high


@dataclass(frozen=True)
class RunFigures:
    """A run: its day, and its figures by their keys in NAMES; ms, and shares of requests."""

    day: str
    figures: Mapping[str, float]

    def has(self, name: str) -> bool:
        """Whether it is there; a latency of 0 is none."""
        return self.figures.get(name, -1.0) >= 0 and (name in SHARES or self.figures[name] > 0)


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
