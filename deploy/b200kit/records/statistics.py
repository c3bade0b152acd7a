"""Whether two groups of runs show the same latency: same, different, or not enough to say. Pure.

The run is the unit, never the request: requests of one run share its server, its caches and its
hour, so thousands of them are one observation of a day. Compared is the ratio of the runs' medians,
on a log scale, with Welch's unequal variances:

- *same*: two one-sided tests (TOST) put the ratio within +-MARGIN, at 5 % each. Every metric must
  pass, so the error stays 5 %.
- *different*: the ratio lies beyond MARGIN, and its interval leaves out 1, at 5 % over all metrics
  together (Bonferroni).
- *unclear*: everything else. Too few runs, too much spread, two modes: never "same" by default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from b200kit.node.client.percentiles import deviation, mean, percentile
from b200kit.records.student_t import quantile

METRICS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2el": "E2E"}
MARGIN = 0.05
RISK = 0.05
LEAST = 5
"""Runs of a group that are too few for any statement (quoted: repeat at least five times)."""

_APART = 2.0
"""Two modes are this many times further apart than either is wide (inferred)."""


class Outcome(StrEnum):
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
    modes: tuple[tuple[int, float], ...] = ()
    """Runs and median of the fast and of the slow mode; empty where there is but one."""

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        return asdict(self) | {"modes": [list(mode) for mode in self.modes]}


@dataclass(frozen=True)
class Compared:
    """One metric of two groups. ratio 1.07 is 7 % slower; interval is its 90 % one."""

    metric: str
    outcome: Outcome
    before: Spread
    after: Spread
    ratio: float
    interval: tuple[float, float]
    why: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        groups = {"before": self.before.to_json(), "after": self.after.to_json()}
        own = {"outcome": self.outcome.value, "interval": list(self.interval)}
        return asdict(self) | groups | own


@dataclass(frozen=True)
class Comparison:
    """All metrics; `slower` names those that are different and slower."""

    outcome: Outcome
    why: str
    metrics: tuple[Compared, ...] = ()

    @property
    def slower(self) -> tuple[str, ...]:
        """Metrics that got worse."""
        wrong = (m for m in self.metrics if m.outcome is Outcome.DIFFERENT and m.ratio > 1)
        return tuple(m.metric for m in wrong)

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        return {
            "outcome": self.outcome.value,
            "why": self.why,
            "slower": list(self.slower),
            "metrics": [metric.to_json() for metric in self.metrics],
        }


def spread(values: Sequence[float]) -> Spread:
    """Describe a group of run medians, at least one, all above 0."""
    centre = percentile(values, 50)
    sample = math.sqrt(len(values) / (len(values) - 1)) if len(values) > 1 else 0.0
    cv = deviation(values) * sample / mean(values)
    return Spread(len(values), centre, min(values), max(values), cv, modes(values))


def modes(values: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """The two modes that runs fall into, or none: a mean of two modes is no run's latency.

    The widest gap must exceed twice MARGIN, and be _APART times as wide as either side of it.
    """
    ordered = sorted(values)
    gaps = [after - before for before, after in pairwise(ordered)]
    if len(ordered) < 3:
        return ()
    at = gaps.index(max(gaps)) + 1
    low, high = ordered[:at], ordered[at:]
    wide = max(low[-1] - low[0], high[-1] - high[0])
    if gaps[at - 1] <= max(2 * MARGIN * percentile(ordered, 50), _APART * wide):
        return ()
    return tuple((len(side), percentile(side, 50)) for side in (low, high))


def compare(
    before: Sequence[Mapping[str, float]], after: Sequence[Mapping[str, float]]
) -> Comparison:
    """Compare two groups of runs, each a mapping of metric to its run's median in ms.

    A metric that a run does not have is not compared, and makes the whole unclear.
    """
    few = _few(before, after)
    if few:
        return Comparison(Outcome.UNCLEAR, few)
    reported = [m for m in METRICS if any(m in run for run in (*before, *after))]
    missing = [m for m in reported if not all(run.get(m, 0) > 0 for run in (*before, *after))]
    judged = [m for m in reported if m not in missing]
    if not judged:
        return Comparison(Outcome.UNCLEAR, "the runs have no metric in common")
    found = [_one(m, [r[m] for r in before], [r[m] for r in after], len(judged)) for m in judged]
    return _together(found, missing)


def expected(
    before: Sequence[Mapping[str, float]], run: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Whether one run lies where the baseline's runs let expect it: 95 % over all metrics together.

    A hint after a single run, never a result: {metric: {"value", "low", "high", "inside"}} in ms.
    """
    judged = [m for m in METRICS if run.get(m, 0) > 0 and all(r.get(m, 0) > 0 for r in before)]
    if len(before) < LEAST:
        return {}
    return {m: _predicted([r[m] for r in before], run[m], len(judged)) for m in judged}


def slower(
    before: Sequence[Mapping[str, float]], run: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """The metrics in which one run is slower than `expected`, and by more than MARGIN."""
    usual = {m: percentile([r[m] for r in before], 50) for m in run if all(m in r for r in before)}
    found = expected(before, run)
    return {
        m: one
        for m, one in found.items()
        if one["value"] > max(one["high"], usual[m] * (1 + MARGIN))
    }


def _predicted(before: Sequence[float], value: float, metrics: int) -> dict[str, Any]:
    logs = [math.log(v) for v in before]
    runs = len(logs)
    half_width = math.sqrt(_variance(logs) * (1 + 1 / runs)) * quantile(
        1 - RISK / metrics, runs - 1
    )
    low, high = math.exp(mean(logs) - half_width), math.exp(mean(logs) + half_width)
    return {"value": value, "low": low, "high": high, "inside": low <= value <= high}


def _few(before: Sequence[object], after: Sequence[object]) -> str:
    """Why two groups are too small to compare, or nothing."""
    if min(len(before), len(after)) >= LEAST:
        return ""
    there = f"there are {len(before)} accepted and {len(after)} newer"
    return f"not enough runs to say: {LEAST} of each are needed, {there}"


def _together(found: list[Compared], missing: list[str]) -> Comparison:
    """One outcome over all metrics."""
    changed = [m for m in found if m.outcome is Outcome.DIFFERENT]
    open_ = [m for m in found if m.outcome is Outcome.UNCLEAR]
    metrics = tuple(found)
    if changed:
        changes = ", ".join(f"{METRICS[m.metric]} {percent(m.ratio)}" for m in changed)
        return Comparison(Outcome.DIFFERENT, changes, metrics)
    if open_:
        why = "; ".join(dict.fromkeys(f"{METRICS[m.metric]}: {m.why}" for m in open_))
        return Comparison(Outcome.UNCLEAR, why, metrics)
    if missing:
        why = f"not every run has {', '.join(METRICS[m] for m in missing)}"
        return Comparison(Outcome.UNCLEAR, why, metrics)
    worst = max(found, key=lambda m: abs(math.log(m.ratio)))
    why = f"all within +-{MARGIN:.0%}; most in {METRICS[worst.metric]}, {percent(worst.ratio)}"
    return Comparison(Outcome.SAME, why, metrics)


def _one(metric: str, before: list[float], after: list[float], metrics: int) -> Compared:
    """One metric; the risk of a false "different" is shared by *metrics*."""
    shift, error, freedom = _welch(before, after)
    half_width = error * quantile(1 - 2 * RISK, freedom)
    interval = (math.exp(shift - half_width), math.exp(shift + half_width))
    groups = spread(before), spread(after)
    result = Compared(metric, Outcome.UNCLEAR, *groups, math.exp(shift), interval)
    if _beyond(shift) and abs(shift) > error * quantile(1 - RISK / metrics, freedom):
        return replace(result, outcome=Outcome.DIFFERENT)
    if groups[0].modes or groups[1].modes:
        which, group = ("newer", groups[1]) if groups[1].modes else ("accepted", groups[0])
        (few, low), (many, high) = group.modes
        sizes = f"{few} near {low:.3g} ms, {many} near {high:.3g} ms"
        return replace(result, why=f"the {which} runs fall into two modes ({sizes})")
    if not any(_beyond(math.log(end)) for end in interval):
        return replace(result, outcome=Outcome.SAME)
    return replace(result, why=_open(interval))


def _open(interval: tuple[float, float]) -> str:
    """Why an interval neither lies within the margin nor shows a difference."""
    span = f"{percent(interval[0])} to {percent(interval[1])}"
    return f"anything from {span} is possible; more runs would say"


def _beyond(shift: float) -> bool:
    """Whether a log ratio is outside the margin; slower and faster by the same factor alike."""
    return abs(shift) > math.log1p(MARGIN)


def percent(ratio: float) -> str:
    """A ratio as a change: "+7.0 %"."""
    return f"{(ratio - 1) * 100:+.1f} %"


def _welch(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, int]:
    """Log ratio, its standard error, and the degrees of freedom, rounded down to be careful."""
    logs = [[math.log(v) for v in group] for group in (before, after)]
    shift = mean(logs[1]) - mean(logs[0])
    parts = [_variance(group) / len(group) for group in logs]
    total = sum(parts)
    if not total:
        return shift, 0.0, 1
    below = sum(part**2 / (len(group) - 1) for part, group in zip(parts, logs, strict=True))
    return shift, math.sqrt(total), max(1, math.floor(total**2 / below))


def _variance(values: Sequence[float]) -> float:
    """The sample's variance."""
    return deviation(values) ** 2 * len(values) / (len(values) - 1)
