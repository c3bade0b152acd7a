"""How often the share of good requests is judged wrongly, simulated; docs/measure.md has the rates.

Misses come one by one, or in bursts: after a miss the next request misses with a probability of
0.4 more than otherwise. Both are assumed.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest

from b200kit.node.client.formulas import Chunk, RequestRecord, Run
from b200kit.node.client.goodput import GoodputShare, is_decided, share_of
from b200kit.node.client.low_load import ROUNDS
from b200kit.node.client.percentiles import proportion
from b200kit.node.state.serving import Objective
from tests.subtests import in_subtests

WANTED, TURN, RUNS = 0.95, 60, 2000


@cache
def judged(good: int, of: int) -> str:
    """What the smoke test makes of so many good requests."""
    found = GoodputShare(good, of, WANTED)
    return "fail" if found.is_missed else "pass" if found.is_met else "undecided"


def good_requests(chance: random.Random, true: float, burst: float) -> list[bool]:
    """The longest run, a request after the other."""
    found, state = [], chance.random() < true
    for _ in range(TURN * ROUNDS):
        found.append(state)
        state = state if chance.random() < burst else chance.random() < true
    return found


def taken(requests: list[bool]) -> str:
    """The verdict after as many turns as are taken."""
    for turn in range(1, ROUNDS + 1):
        part = requests[: turn * TURN]
        if (word := judged(sum(part), len(part))) != "undecided":
            break
    return word


def rates(true: float, burst: float = 0.0, runs: int = RUNS) -> dict[str, float]:
    """Shares of runs by their verdict."""
    chance = random.Random(18)
    counts = Counter(taken(good_requests(chance, true, burst)) for _ in range(runs))
    return {word: counts[word] / runs for word in ("pass", "undecided", "fail")}


@in_subtests("true", [1.0, 0.99, 0.97, 0.95])
def test_server_that_meets_the_objective_fails_in_three_runs_of_a_thousand_at_most(
    true: float,
) -> None:
    assert rates(true)["fail"] <= (0.001 if true >= 0.97 else 0.003)
    assert rates(true)["pass"] >= {1.0: 1.0, 0.99: 0.999, 0.97: 0.98, 0.95: 0.6}[true]


def test_server_with_twice_the_misses_passes_in_one_run_of_twenty_at_most() -> None:
    assert rates(0.90)["pass"] <= 0.05
    assert rates(0.85)["pass"] <= 0.002
    assert rates(0.85)["fail"] >= 0.98


def test_bursts_cost_certainty_and_turn_no_good_server_red() -> None:
    assert rates(0.99, burst=0.4)["fail"] <= 0.001
    assert rates(0.97, burst=0.4)["fail"] <= 0.01
    assert rates(0.90, burst=0.4)["pass"] <= 0.2


def test_one_turn_judged_by_its_share_alone_would_be_wrong_far_more_often() -> None:
    chance = random.Random(18)

    def good(true: float) -> float:
        samples = [sum(chance.random() < true for _ in range(TURN)) for _ in range(RUNS)]
        return sum(sample >= WANTED * TURN for sample in samples) / RUNS

    assert 1 - good(0.95) > 0.3
    assert good(0.90) > 0.1


@in_subtests(
    ("good", "of", "word"),
    [(60, 60, "pass"), (59, 60, "pass"), (58, 60, "undecided"), (49, 60, "fail"),
     (28, 28, "undecided"), (29, 29, "pass"), (0, 0, "undecided"), (0, 5, "fail")],
)  # fmt: skip
def test_what_so_many_good_requests_say(good: int, of: int, word: str) -> None:
    assert judged(good, of) == word


@in_subtests(("good", "of"), [(58, 60), (57, 60), (10, 10), (54, 60), (110, 120)])
def test_number_that_is_said_to_decide_does_and_is_larger(good: int, of: int) -> None:
    needed = GoodputShare(good, of, WANTED).needed
    assert needed is not None
    assert needed > of
    assert judged(round(good / of * needed), needed) != "undecided"


def test_share_next_to_what_is_asked_takes_more_than_can_be_asked() -> None:
    assert GoodputShare(947, 1000, WANTED).needed is None


def test_where_every_request_is_asked_for_one_miss_fails_and_a_pass_takes_many() -> None:
    assert GoodputShare(59, 60, 1.0).is_missed
    assert not GoodputShare(60, 60, 1.0).is_decided
    assert GoodputShare(60, 60, 1.0).needed == pytest.approx(299, rel=0.05)


def answered(*first_s: float, error: str | None = None) -> Run:
    """Requests by the time of their first token."""
    return Run(
        tuple(
            RequestRecord(0.0, 0.0, (Chunk(at), Chunk(at + 0.01)), 5, 2, "length", error=error)
            for at in first_s
        )
    )


def test_failed_request_is_a_miss_and_ends_the_sending() -> None:
    objective = Objective(ttft_ms=100)
    assert share_of(answered(0.05, 0.2), objective) == GoodputShare(1, 2, 0.95)
    failed = answered(*[0.05] * 10, error="HTTP 500")
    assert share_of(failed, objective).good == 0
    assert is_decided(failed, objective)
    assert not is_decided(answered(*[0.05] * 10), objective)
    assert is_decided(answered(0.05), Objective())


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # scipy.stats.binomtest(hits, trials).proportion_ci(method="exact")
    [(60, 120, 0.4074, 0.5926), (97, 121, 0.7196, 0.8685), (5, 10, 0.1871, 0.8129)],
)
def test_interval_is_the_exact_one(hits: int, trials: int, low: float, high: float) -> None:
    assert proportion(hits, trials) == pytest.approx((low, high), abs=2e-3)


def test_interval_holds_the_true_share_as_often_as_it_says() -> None:
    chooser = random.Random(5)
    covered = 0
    for _ in range(200):
        hits = sum(chooser.random() < 0.9 for _ in range(50))
        low, high = proportion(hits, 50)
        covered += low <= 0.9 <= high
    assert covered >= 0.93 * 200
