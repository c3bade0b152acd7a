"""How often the record is wrong on days that differ; docs/measure.md has the rates.

A simulated run takes what its day makes it (3 %), noise of its own (1 %), both for four fifths
shared by the metrics, and in two of a hundred runs 1.3 to 2 times as long. All of it is assumed:
no B200 was measured over days.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from b200kit.records.statistics import (
    DAYS,
    METRICS,
    RunFigures,
    compare,
    slower,
    trimmed,
)
from tests.subtests import in_subtests
from tests.unit.records import runs

TRIALS = 400
REQUESTS = 60


@dataclass(frozen=True)
class Node:
    """What varies: spread between days, share of runs that are outliers, of requests that stall."""

    between: float = 0.03
    outliers: float = 0.02
    stalled: float = 0.0


def group(
    chance: random.Random, node: Node, days: int, each: int, by: float = 1
) -> list[RunFigures]:
    """Runs on so many days, so many a day; *by*: how much slower."""
    return [
        run
        for day in range(days)
        for run in one_day(chance, node, f"{chance.random()} {day}", each, by)
    ]


def single(chance: random.Random, node: Node, by: float = 1) -> RunFigures:
    """One run of a day of its own."""
    return group(chance, node, 1, 1, by)[0]


def one_day(chance: random.Random, node: Node, day: str, runs_: int, by: float) -> list[RunFigures]:
    """Runs of one day."""
    of_day = runs.day(chance, node.between)
    return [measured(chance, node, day, of_day, by) for _ in range(runs_)]


def measured(
    chance: random.Random, node: Node, day: str, of_day: dict[str, float], by: float
) -> RunFigures:
    """One run: medians, tails, and the share of its requests that took twice as long."""
    out = chance.uniform(1.3, 2) if chance.random() < node.outliers else 1.0
    own = runs.day(chance, 0.01)
    medians = {m: of_day[m] * own[m] / runs.BASE[m] * out * by for m in METRICS}
    late = sum(chance.random() < 0.01 + node.stalled for _ in range(REQUESTS)) / REQUESTS
    stalls = sum(chance.random() < node.stalled for _ in range(REQUESTS))
    # The P95 of 60 lies between the third and the fourth of the largest.
    tail = 2000.0 if stalls > 3 else 0.0
    tails = {
        f"p95_{m}": v * 1.2 * math.exp(chance.gauss(0, 0.07)) + (tail if m == "e2el" else 0)
        for m, v in medians.items()
    }
    return RunFigures(day, {**medians, **tails, "late": late, "missed": 0.0})


def outcomes(
    one: Callable[[random.Random], list[RunFigures]],
    other: Callable[[random.Random], list[RunFigures]],
    trials: int = TRIALS,
) -> dict[str, float]:
    """Shares of comparisons by their outcome."""
    chance = random.Random(18)
    found = Counter(compare(one(chance), other(chance)).outcome.value for _ in range(trials))
    return {word: found[word] / trials for word in ("same", "different", "unclear")}


def red(days: int, each: int, by: float = 1.0, node: Node = Node()) -> float:
    """How often a run of another day is called slower than a baseline."""
    chance = random.Random(18)
    return sum(
        bool(slower(group(chance, node, days, each), single(chance, Node(outliers=0), by)))
        for _ in range(2 * TRIALS)
    ) / (2 * TRIALS)


@in_subtests(("days", "each"), [(1, 10), (3, 4), (5, 2), (10, 1), (20, 1)], one_in=5)
def test_unchanged_day_is_seldom_called_slower_however_many_days_the_baseline_has(
    days: int, each: int
) -> None:
    assert red(days, each) <= 0.01


def test_tenth_is_found_where_days_are_alike_and_the_baseline_shows_it() -> None:
    alike = Node(between=0.01)
    chance = random.Random(18)
    found = sum(
        bool(slower(group(chance, alike, 10, 1), single(chance, alike, 1.1))) for _ in range(TRIALS)
    )
    assert found >= 0.95 * TRIALS


def test_days_of_one_baseline_that_differ_widely_are_believed_more_than_what_is_assumed() -> None:
    assert red(4, 3, node=Node(between=0.03)) <= 0.02
    chance, wild = random.Random(18), Node(between=0.08)
    found = sum(
        bool(slower(group(chance, wild, 4, 3), single(chance, wild))) for _ in range(TRIALS)
    )
    assert found <= 0.1 * TRIALS


def test_outliers_do_not_silence_the_record() -> None:
    node = Node(between=0.01)
    found = outcomes(lambda c: group(c, node, 10, 1), lambda c: group(c, node, 10, 1))
    assert found["unclear"] <= 0.15
    assert found["different"] <= 0.02


def test_unchanged_days_are_hardly_ever_different_and_one_day_is_never_the_same() -> None:
    node = Node()
    spread = outcomes(lambda c: group(c, node, 10, 1), lambda c: group(c, node, 10, 1))
    assert spread["different"] <= 0.02
    alone = outcomes(lambda c: group(c, node, 1, 10), lambda c: group(c, node, 1, 10))
    assert alone["different"] <= 0.03
    assert alone["same"] == 0


# 4 % of stalled requests move no median: P95 of 60 requests shows them in a run of five only.
@in_subtests("days", [1, 10], one_in=2)
def test_server_that_stalls_some_requests_is_never_the_same(days: int) -> None:
    steady, stalling = Node(between=0.01), Node(between=0.01, stalled=0.04)
    found = outcomes(
        lambda c: group(c, steady, days, 10 // days), lambda c: group(c, stalling, days, 10 // days)
    )
    assert found["same"] <= 0.01


def test_run_that_stands_apart_is_left_out_and_counted() -> None:
    chance = random.Random(18)
    before, after = (group(chance, Node(0.005, 0), 10, 1) for _ in range(2))
    far = after[3]
    after[3] = RunFigures(far.day, {m: v * 1.8 for m, v in far.figures.items()})
    found = compare(before, after)
    assert found.metrics[0].after.apart == trimmed(10) == 1
    assert found.outcome.value == "same"


def test_fewer_days_than_show_their_spread_widen_what_is_expected() -> None:
    chance, calm = random.Random(18), Node(0.0001, 0)
    shown = {
        days: slower(group(chance, calm, days, 10 // days), single(chance, calm, 1.07))
        for days in (1, 10)
    }
    assert shown[1] == {}
    assert set(shown[10]) == set(METRICS)
    assert DAYS <= 10
