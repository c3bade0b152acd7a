"""The goodput knee of a server: up to which request rate its requests meet the objective. Pure.

    A rate is *good*    when no request failed and at least `share` of them met every objective,
              *bad*     when it was measured and is not good,
              *unknown* when it could not be measured (the client starved, nothing answered).

The knee is the highest good rate below the lowest bad one. How sure that is: the share of good
requests has a 95 % interval (Clopper-Pearson, exact); `low` is the highest rate whose whole
interval lies at or above the requested share, `high` the lowest whose whole interval is below. An
unknown rate is never a knee, and never a bound of one: the rates above it are merely not tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from b200kit.node.client.proportion import proportion


@dataclass(frozen=True)
class Point:
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
        """ "good", "bad" or "unknown", as in the module's head."""
        if self.good is None or self.of <= 0:
            return "unknown"
        return "good" if not self.failed and self.good >= share * self.of else "bad"

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the share of good requests; (0, 1) where nothing was measured."""
        return proportion(self.good, self.of) if self.good is not None else (0.0, 1.0)

    def sure(self, share: float) -> bool:
        """Whether its verdict would stand over the whole interval."""
        low, high = self.interval
        found = self.verdict(share)
        return (found == "good" and low >= share) or (
            found == "bad" and (high < share or bool(self.failed))
        )


@dataclass(frozen=True)
class Sweep:
    """How rates are chosen: from *first*, doubled or halved within *least* and *most*, then halved
    between the last good and the first bad one until they are within 1 + *resolution*.

    cells: the most points of one sweep. tries: how often an unknown rate is tried.
    """

    first: float = 4.0
    least: float = 0.25
    most: float = 512.0
    resolution: float = 0.1
    cells: int = 12
    share: float = 0.95
    tries: int = 2


@dataclass(frozen=True)
class Knee:
    """Where goodput ends. rate None: no rate was good. low, high: see the module's head."""

    rate: float | None
    goodput: float | None
    low: float | None
    high: float | None
    why: str


def next_rate(points: Sequence[Point], sweep: Sweep) -> float | None:
    """The rate to measure next, None when the sweep is over. It follows from the points alone, so
    a sweep that was killed goes on where it was.
    """
    if not points:
        return sweep.first
    if len(points) >= sweep.cells:
        return None
    last = points[-1]
    attempts = sum(point.rate == last.rate for point in points)
    if last.verdict(sweep.share) == "unknown" and attempts < sweep.tries:
        return last.rate
    found = _by_rate(points, sweep.share)
    if len(found) > 1 and set(found.values()) == {"unknown"}:
        return None
    return _between(found, sweep)


def _by_rate(points: Sequence[Point], share: float) -> dict[float, str]:
    """Each rate's verdict: that of its last point which was measured."""
    found: dict[float, str] = {}
    for point in points:
        verdict = point.verdict(share)
        if verdict != "unknown" or point.rate not in found:
            found[point.rate] = verdict
    return found


def _between(found: dict[float, str], sweep: Sweep) -> float | None:
    ceiling = min((rate for rate, verdict in found.items() if verdict != "good"), default=None)
    below = [r for r, v in found.items() if v == "good" and (ceiling is None or r < ceiling)]
    floor = max(below, default=None)
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


def knee(points: Sequence[Point], sweep: Sweep) -> Knee:
    """The knee of the points so far."""
    share = sweep.share
    verdict = _by_rate(points, share)
    known = {point.rate: point for point in points if point.verdict(share) != "unknown"}
    bad = min((rate for rate in known if verdict[rate] == "bad"), default=None)
    good = [r for r in known if verdict[r] == "good" and (bad is None or r < bad)]
    best = known[max(good)] if good else None
    sure = [rate for rate in good if known[rate].sure(share)]
    surely_bad = [r for r in known if verdict[r] == "bad" and known[r].sure(share)]
    return Knee(
        rate=best.rate if best else None,
        goodput=best.goodput if best else None,
        low=max(sure, default=None),
        high=min(surely_bad, default=None),
        why=_why(points, sweep, best, known.get(bad) if bad is not None else None),
    )


def _why(points: Sequence[Point], sweep: Sweep, best: Point | None, bad: Point | None) -> str:
    parts = []
    if best:
        parts.append(f"{_point_text(best)} at {best.rate:g}/s")
    if bad:
        parts.append(f"{_point_text(bad)} at {bad.rate:g}/s")
    elif best and best.rate >= sweep.most:
        parts.append("no higher rate was asked, so the knee is higher")
    elif best:
        parts.append("no bad rate was measured above it, so the knee may be higher")
    unknown = [p for p in points if p.verdict(sweep.share) == "unknown"]
    if unknown and not (bad and best and min(p.rate for p in unknown) > bad.rate):
        parts.append(f"{unknown[-1].rate:g}/s could not be measured: {unknown[-1].why}")
    good = [point.rate for point in points if point.verdict(sweep.share) == "good"]
    if bad and good and max(good) > bad.rate:
        parts.append(f"but good again at {max(good):g}/s: the bound is not sharp")
    if best and not best.sure(sweep.share):
        parts.append(f"n={best.of} does not carry a share of {sweep.share:.0%} for sure")
    return "; ".join(parts) or "nothing was measured"


def _point_text(point: Point) -> str:
    low, high = point.interval
    failed = f", {point.failed} failed" if point.failed else ""
    return f"{point.good} of {point.of} good ({low:.1%} to {high:.1%}){failed}"
