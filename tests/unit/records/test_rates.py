"""How often verdicts are wrong, simulated: each row of the table in docs/measure.md is held here.

A simulated request takes what its day makes it (5 %), what its replica is (0.5 %), noise that its
neighbours share (correlation 0.4), in one of 50 cases 1.3 to 4 times as long, and while others are
busy (a quarter of the run, each with 10 %) 1.15 times as long everywhere. Misses of the objective
come one by one. Runs of a record: test_record_rates.py. All of it is assumed: no B200 was measured.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from b200kit.node.client.judgement import GoodputShare, compare
from b200kit.node.state.serving import SmokePlan
from b200kit.records.statistics import slower
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit.records import test_record_rates as record

DOC = Path(__file__).parents[3] / "docs" / "measure.md"
REQUESTS, DIRECT = SmokePlan().requests, SmokePlan().direct_requests
WANTED, SHARE = 0.1, 0.95
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
    """A run; replica 1 is the slow one."""
    n = DIRECT
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


@cache
def judged(good: int) -> str:
    """What the rule makes of so many good requests."""
    found = GoodputShare(good, REQUESTS, SHARE)
    return "fail" if found.is_missed else "pass" if found.is_met else "undecided"


def goodput(chance: random.Random, true: float) -> str:
    """A server of which so many requests are good."""
    return judged(sum(chance.random() < true for _ in range(REQUESTS)))


def replicas(chance: random.Random, world: World) -> str:
    """Which replica is named; else whether the run says that all are alike."""
    found = compare(simulated(chance, world), WANTED)
    names = {each.path for each in found.slower}
    if names:
        return "found" if names == {"direct-1"} else "another"
    return "not enough" if found.more else "alike"


def baseline(chance: random.Random, by: float) -> str:
    """A run that is slower by a factor than those of a baseline, of ten days."""
    node = record.Node()
    last = record.single(chance, record.Node(outliers=0), by)
    return "slower" if slower(record.group(chance, node, 10, 1), last) else "usual"


def red(chance: random.Random, world: World, true: float) -> str:
    """A node of which nothing changed, by all of the rule."""
    is_red = (
        goodput(chance, true) == "fail"
        or replicas(chance, world) in ("found", "another")
        or baseline(chance, 1.0) == "slower"
    )
    return "red" if is_red else ""


def world(chance: random.Random, slow: float = 1.0) -> World:
    """One of the usual ones."""
    return World(chance.choice((2, 4, 8)), chance.choice((0.02, 0.04)), slow)


Row = tuple[str, Callable[[random.Random], str]]
ROWS: dict[str, Row] = {
    "a sound node fails, by any rule": ("red", lambda c: red(c, world(c), 0.99)),
    "one that just meets the objective fails": ("red", lambda c: red(c, world(c), SHARE)),
    "99 % good requests pass": ("pass", lambda c: goodput(c, 0.99)),
    "97 % good requests pass": ("pass", lambda c: goodput(c, 0.97)),
    "90 % good requests pass": ("pass", lambda c: goodput(c, 0.90)),
    "85 % good requests fail": ("fail", lambda c: goodput(c, 0.85)),
    "one replica 10 % slower is found": ("found", lambda c: replicas(c, world(c, 1 + WANTED))),
    "another replica is named": ("another", lambda c: replicas(c, world(c, 1 + WANTED))),
    "it passes where tokens differ by 8 %": (
        "alike", lambda c: replicas(c, World(4, 0.08, 1 + WANTED))
    ),
    "a node 20 % slower than its baseline is found": ("slower", lambda c: baseline(c, 1.2)),
}  # fmt: skip


def table() -> dict[str, tuple[float, str]]:
    """The rows of the documentation: a bound, and whether it is the least or the most."""
    rows = re.findall(r"^\| (.+?) \| (at least|at most) ([0-9.]+) % \|$", DOC.read_text(), re.M)
    return {name: (float(bound) / 100, kind) for name, kind, bound in rows}


def test_every_rate_of_the_documentation_is_simulated() -> None:
    assert list(table()) == list(ROWS)


@in_subtests("name", list(ROWS))
def test_rate_is_as_the_documentation_says(name: str) -> None:
    word, one = ROWS[name]
    chance = random.Random(name)
    runs = len(sample(range(2000), 10))
    found = Counter(one(chance) for _ in range(runs))[word] / runs
    bound, kind = table()[name]
    print(f"{name}: {found:.2%} of {runs}")
    # Of a tenth of the runs chance may take three deviations more.
    slack = 3 * math.sqrt(bound * (1 - bound) / runs) if runs < 2000 else 0.0
    assert found >= bound - slack if kind == "at least" else found <= bound + slack
