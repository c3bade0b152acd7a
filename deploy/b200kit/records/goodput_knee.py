"""The goodput knee of a server: up to which request rate its requests meet the objective. Pure.

All requests of a rate count together, however often it was measured:

    A rate is *good*       when no request failed and at least `share` of them met every objective,
              *bad*        when one failed, or the exact 95 % interval of that share is below it,
              *undecided*  when fewer met it and chance may have done that,
              *unknown*    when it could not be measured (the client starved, nothing answered).

The knee is the highest good rate below the lowest bad one. An undecided rate is repeated, and if it
stays so it bounds nothing: one chance miss caps no sweep. How sure the knee is: `low` is the
highest rate whose whole interval (Clopper-Pearson) lies at or above the share, `high` the lowest
bad one. An unknown rate is never a knee, and never a bound of one: the rates above it are merely
not tried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from b200kit.node.client.percentiles import proportion


@dataclass(frozen=True)
class RatePoint:
    """One measured rate (requests/s): *good* of *of* requests met the objective, *failed* failed.

    good: None where nothing was measured; *why* says why. goodput: good requests a second.
    """

    rate: float
    good: int | None = None
    of: int = 0
    failed: int = 0
    goodput: float | None = None
    why: str = ""

    def verdict(self, share: float) -> str:
        """ "good", "bad", "undecided" or "unknown", as in the module's head."""
        if self.good is None or self.of <= 0:
            return "unknown"
        if self.failed or self.interval[1] < share:
            return "bad"
        return "good" if self.good >= share * self.of else "undecided"

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the share of good requests; (0, 1) where nothing was measured."""
        if self.good is None:
            return 0.0, 1.0
        # By the misses, which are few: the sums are short.
        low, high = proportion(self.of - self.good, self.of)
        return 1 - high, 1 - low

    def and_then(self, more: RatePoint) -> RatePoint:
        """This point and one at the same rate after it, as one; what was not measured adds none."""
        if self.good is None or more.good is None:
            return more if self.good is None else self
        goodput = [part.goodput for part in (self, more)]
        known = [value for value in goodput if value is not None]
        return RatePoint(
            self.rate,
            self.good + more.good,
            self.of + more.of,
            self.failed + more.failed,
            sum(known) / len(known) if known else None,
        )

    def is_surely_good(self, share: float) -> bool:
        """Whether it would be good over the whole interval."""
        return self.verdict(share) == "good" and self.interval[0] >= share


@dataclass(frozen=True)
class Sweep:
    """How rates are chosen: from *first*, doubled or halved within *least* and *most*, then halved
    between the last good and the first bad one until they are within 1 + *resolution*.

    cells: the most points of one sweep. tries: how often a rate is measured that stays unknown, or
    undecided.
    """

    first: float = 4.0
    least: float = 0.25
    most: float = 512.0
    resolution: float = 0.1
    cells: int = 12
    share: float = 0.95
    tries: Mapping[str, int] = field(default_factory=lambda: {"unknown": 2, "undecided": 3})


@dataclass(frozen=True)
class Knee:
    """Where goodput ends. rate None: no rate was good. low, high: see the module's head."""

    rate: float | None
    goodput: float | None
    low: float | None
    high: float | None
    why: str


def next_rate(points: Sequence[RatePoint], sweep: Sweep) -> float | None:
    """The rate to measure next, None when the sweep is over. It follows from the points alone, so
    a sweep that was killed goes on where it was.
    """
    if not points:
        return sweep.first
    if len(points) >= sweep.cells:
        return None
    last, pooled = points[-1].rate, _by_rate(points)
    found = {rate: point.verdict(sweep.share) for rate, point in pooled.items()}
    attempts = sum(point.rate == last for point in points)
    if attempts < sweep.tries.get(found[last], 0):
        return last
    if len(found) > 1 and set(found.values()) == {"unknown"}:
        return None
    return _between(found, sweep)


def _by_rate(points: Sequence[RatePoint]) -> dict[float, RatePoint]:
    """Each rate's points as one."""
    found: dict[float, RatePoint] = {}
    for point in points:
        before = found.get(point.rate)
        found[point.rate] = before.and_then(point) if before else point
    return found


def _between(found: dict[float, str], sweep: Sweep) -> float | None:
    """Above what may be good first; then between the best good rate and an undecided one."""
    ends = [rate for rate, verdict in found.items() if verdict in ("bad", "unknown")]
    ceiling = min(ends, default=None)
    maybe = [r for r, v in found.items() if r not in ends and (ceiling is None or r < ceiling)]
    rate = _next(max(maybe, default=None), ceiling, sweep)
    good = [r for r in maybe if found[r] == "good"]
    open_ = [r for r in maybe if r > max(good, default=0.0)]
    return rate or (_next(max(good, default=None), min(open_), sweep) if open_ else None)


def _next(floor: float | None, ceiling: float | None, sweep: Sweep) -> float | None:
    """Between the two, or beyond the one that there is."""
    if floor is None:
        lower = (ceiling or sweep.first) / 2
        return _round(lower) if lower >= sweep.least else None
    if ceiling is None:
        return min(floor * 2, sweep.most) if floor < sweep.most else None
    if ceiling / floor <= 1 + sweep.resolution:
        return None
    middle = _round(math.sqrt(floor * ceiling))
    return middle if floor < middle < ceiling else None


def _round(rate: float) -> float:
    """Three digits: what a person can type again."""
    return float(f"{rate:.3g}")


def knee(points: Sequence[RatePoint], sweep: Sweep) -> Knee:
    """The knee of the points so far."""
    share, pooled = sweep.share, _by_rate(points)
    of = {v: [r for r, p in pooled.items() if p.verdict(share) == v] for v in ("good", "bad")}
    bad = min(of["bad"], default=None)
    good = [rate for rate in of["good"] if bad is None or rate < bad]
    best = pooled[max(good)] if good else None
    return Knee(
        rate=best.rate if best else None,
        goodput=best.goodput if best else None,
        low=max((r for r in good if pooled[r].is_surely_good(share)), default=None),
        high=bad,
        why=_why(pooled, sweep, best, pooled[bad] if bad is not None else None),
    )


def _why(
    pooled: Mapping[float, RatePoint], sweep: Sweep, best: RatePoint | None, bad: RatePoint | None
) -> str:
    verdict = {rate: point.verdict(sweep.share) for rate, point in pooled.items()}
    parts = []
    if best:
        parts.append(f"{_point_text(best)} at {best.rate:g}/s")
    undecided = [
        rate
        for rate, found in verdict.items()
        if found == "undecided" and (not best or rate > best.rate) and (not bad or rate < bad.rate)
    ]
    parts += [f"undecided: {_point_text(pooled[rate])} at {rate:g}/s" for rate in sorted(undecided)]
    if bad:
        parts.append(f"{_point_text(bad)} at {bad.rate:g}/s")
    elif best and best.rate >= sweep.most:
        parts.append("no higher rate was asked, so the knee is higher")
    elif best:
        parts.append("no bad rate was measured above it, so the knee may be higher")
    unknown = [point for point in pooled.values() if verdict[point.rate] == "unknown"]
    if unknown and not (bad and best and min(p.rate for p in unknown) > bad.rate):
        parts.append(f"{unknown[-1].rate:g}/s could not be measured: {unknown[-1].why}")
    good = [rate for rate, found in verdict.items() if found == "good"]
    if bad and good and max(good) > bad.rate:
        parts.append(f"but good again at {max(good):g}/s: the bound is not sharp")
    if best and not best.is_surely_good(sweep.share):
        parts.append(f"n={best.of} does not carry a share of {sweep.share:.0%} for sure")
    return "; ".join(parts) or "nothing was measured"


def _point_text(point: RatePoint) -> str:
    low, high = point.interval
    failed = f", {point.failed} failed" if point.failed else ""
    return f"{point.good} of {point.of} good ({low:.1%} to {high:.1%}){failed}"
