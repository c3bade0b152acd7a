"""The share of requests that met the objective, and what a sample of it decides. Pure.

    fail        its 99.9 % interval lies below the share that is asked for
    pass        the share was met, and its 95 % interval leaves out twice as many misses as allowed
    undecided   everything else: more requests would say

`tests/unit/node/client/test_goodput.py` simulates how often that is wrong (docs/measure.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from b200kit.node.client import false_red
from b200kit.node.client.formulas import Run
from b200kit.node.client.percentiles import proportion
from b200kit.node.state.serving import Objective

_LEAST_MISSED = 0.01
"""Misses that a pass leaves out where none is allowed."""
_MOST = 5000


@dataclass(frozen=True)
class GoodputShare:
    """*good* of *of* requests met the objective, of which *wanted* is a share, above 0 to 1."""

    good: int
    of: int
    wanted: float

    @property
    def interval(self) -> tuple[float, float]:
        """Its exact 95 % interval."""
        return self._interval()

    @property
    def is_missed(self) -> bool:
        """Whether it is below what is wanted, and no chance."""
        return self._interval(1 - 2 * false_red.OBJECTIVE)[1] < self.wanted

    @property
    def is_met(self) -> bool:
        """Whether it is what is wanted, and of enough requests."""
        allowed = 1 - self.wanted
        left_out = 1 - max(2 * allowed, _LEAST_MISSED)
        return self.good >= self.wanted * self.of and self.interval[0] >= left_out

    @property
    def is_decided(self) -> bool:
        """Whether one of both."""
        return self.is_met or self.is_missed

    @property
    def needed(self) -> int | None:
        """About how many requests of which the same share is good would decide; None: too many."""
        share, n = self.good / max(self.of, 1), max(self.of, 1)
        while not GoodputShare(round(share * n), n, self.wanted).is_decided:
            n = math.ceil(n * 1.05)
            if n > _MOST:
                return None
        return n

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.good} of {self.of} requests ({low:.1%} to {high:.1%})"

    def _interval(self, *confidence: float) -> tuple[float, float]:
        """By the misses, which are few: the sums are short."""
        low, high = proportion(self.of - self.good, self.of, *confidence)
        return 1 - high, 1 - low


def share_of(run: Run, objective: Objective) -> GoodputShare:
    """The share of all requests of a run; one that failed is a miss."""
    good = sum(objective.met_by(item) for item in run.completed)
    return GoodputShare(good, len(run.records), objective.share)


def is_decided(run: Run, objective: Objective) -> bool:
    """Whether more requests would add nothing: also where one failed, or nothing is asked."""
    return bool(run.errors) or not objective.limits or share_of(run, objective).is_decided


def faults(run: Run, objective: Objective, any_load: bool = False) -> Iterator[str]:
    """That too few requests met it; at any load of a sweep, whatever their number carries."""
    found = share_of(run, objective)
    if found.is_missed or (any_load and found.good < found.wanted * found.of):
        yield f"objective missed: {found} met {objective} (asked: {found.wanted:.0%})"


def doubts(run: Run, objective: Objective) -> Iterator[str]:
    """That there are too few requests to say whether it is met, and how many it takes."""
    found = share_of(run, objective)
    if not objective.limits or found.is_decided:
        return
    needed = "more than can be asked" if found.needed is None else f"about {found.needed}"
    yield (
        f"not enough requests: {found} met {objective}, where {found.wanted:.0%} are asked for:"
        f" {needed} would decide (smoke.requests, --requests)"
    )
