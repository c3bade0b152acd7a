"""How often the comparison of replicas is wrong, on simulated runs; docs/measure.md has the rates.

A simulated request takes what its day makes it (5 %), what its replica is (0.5 %), noise that its
neighbours share (correlation 0.4), in one of 50 cases 1.3 to 4 times as long, and while others are
busy (a quarter of the run, each with 10 %) 1.15 times as long everywhere. All of it is assumed: no
B200 was measured.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from b200kit.node.client import replicas
from b200kit.node.client.low_load import ROUNDS
from b200kit.node.client.replicas import Comparison
from b200kit.node.lib.documents import unstructure
from tests.sample import sample
from tests.subtests import in_subtests

WANTED, TURN = 0.1, 24
RUNS = 400
Samples = dict[str, dict[str, list[float]]]


@dataclass(frozen=True)
class World:
    """What varies: replicas of a node, and the spread of a request's time a token."""

    count: int
    spread: float
    slow: float = 1.0


def noise(rng: random.Random, n: int, spread: float) -> list[float]:
    """Factors of successive requests."""
    found, state = [], rng.gauss(0, spread)
    for _ in range(n):
        state = 0.4 * state + math.sqrt(1 - 0.16) * rng.gauss(0, spread)
        outlier = rng.uniform(1.3, 4) if rng.random() < 0.02 else 1.0
        found.append(math.exp(state) * outlier)
    return found


def simulated(rng: random.Random, world: World) -> Samples:
    """The longest run that is taken; replica 1 is the slow one."""
    n = TURN * ROUNDS
    day, busy = math.exp(rng.gauss(0, 0.05)), [rng.random() < 0.1 for _ in range(4)]
    paths = {}
    for number in range(world.count):
        own = day * math.exp(rng.gauss(0, 0.005)) * (world.slow if number == 1 else 1.0)
        tpots, ttfts = noise(rng, n, world.spread), noise(rng, n, 0.25)
        burst = [busy[4 * k // n] for k in range(n)]
        paths[f"direct-{number}"] = {
            "tpot": [10 * own * f * (1.15 if b else 1) for f, b in zip(tpots, burst, strict=True)],
            "ttft": [40 * own * f * (1.5 if b else 1) for f, b in zip(ttfts, burst, strict=True)],
        }
    return paths


def first(paths: Samples, requests: int) -> Samples:
    """The first requests of each replica."""
    return {
        name: {metric: values[:requests] for metric, values in each.items()}
        for name, each in paths.items()
    }


def taken(paths: Samples) -> Comparison:
    """The comparison after as many turns as the smoke test takes."""
    for turn in range(1, ROUNDS + 1):
        found = replicas.compare(first(paths, turn * TURN), WANTED)
        if found.is_decided:
            break
    return found


def rates(world: World, runs: int = RUNS) -> dict[str, float]:
    """Shares of runs in which the slow replica, another one or nothing was found, or not enough.

    One in four of the runs is simulated, and all with --all-cases.
    """
    runs = len(sample(range(runs), 4))
    rng, counts = random.Random(11), dict.fromkeys(("found", "other", "passed", "not enough"), 0)
    for _ in range(runs):
        compared = taken(simulated(rng, world))
        names = {each.path for each in compared.slower}
        word = "passed" if compared.is_decided else "not enough"
        if names:
            word = "found" if names == {"direct-1"} and world.slow > 1 else "other"
        counts[word] += 1
    return {word: count / runs for word, count in counts.items()}


@in_subtests("count", [2, 4, 8], one_in=3)
def test_sound_node_is_red_in_at_most_one_run_of_two_hundred(count: int) -> None:
    other = [rates(World(count, spread), 2 * RUNS)["other"] for spread in (0.02, 0.04)]
    assert sum(other) / 2 <= 0.005


@in_subtests("count", [2, 4, 8], one_in=3)
def test_ten_percent_are_found_in_95_runs_of_a_hundred(count: int) -> None:
    for spread in (0.02, 0.04):
        found = rates(World(count, spread, slow=1.1))
        assert found["found"] >= 0.95
        assert found["other"] <= 0.01


def test_where_requests_differ_much_a_pass_is_refused_and_not_guessed() -> None:
    assert rates(World(4, 0.08, slow=1.1), 200)["passed"] <= 0.05
    assert rates(World(4, 0.08), 200)["not enough"] >= 0.5


def test_factor_of_1_6_is_found_by_the_first_turn() -> None:
    rng = random.Random(3)
    for _ in range(100):
        paths = first(simulated(rng, World(8, 0.04, slow=1.6)), TURN)
        assert [each.path for each in replicas.compare(paths, WANTED).slower][:1] == ["direct-1"]


def test_of_two_the_slower_one_is_named_with_its_factor() -> None:
    exact = {"direct-0": [10.0, 10.1, 9.9] * 8, "direct-1": [13.0, 13.1, 12.9] * 8}
    compared = replicas.compare(
        {name: {"tpot": values, "ttft": values} for name, values in exact.items()}, WANTED
    )
    assert {each.path for each in compared.slower} == {"direct-1"}
    document = unstructure(compared.slower[0])
    assert (document["ratio"], document["n"], document["slower"]) == (1.3, 24, True)


def test_answers_of_one_token_are_compared_by_the_first() -> None:
    rng = random.Random(5)
    paths = {f"direct-{i}": {"tpot": [], "ttft": noise(rng, TURN, 0.02)} for i in range(2)}
    compared = replicas.compare(paths, WANTED)
    assert {each.metric for each in compared.compared} == {"ttft"}
    assert compared.is_decided


def test_too_few_requests_decide_nothing() -> None:
    paths = first(simulated(random.Random(5), World(2, 0.02)), 4)
    compared = replicas.compare(paths, WANTED)
    assert (compared.finds, compared.is_decided, compared.needed) == (None, False, 5)
