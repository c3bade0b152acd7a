"""How often a run of which nothing changed is red, whichever verdict says so: at most one of 100.

Each run is judged by all four verdicts that chance decides, as the tests of each simulate it.
"""

from __future__ import annotations

import random
from collections import Counter

from b200kit.node.client import false_red
from b200kit.records.statistics import of_replicas, slower
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit.node.client import test_goodput as objective
from tests.unit.node.client import test_replicas as replicas
from tests.unit.records import test_record_rates as record

RUNS = 2000


def verdicts(chance: random.Random, world: replicas.World, good: float) -> list[str]:
    """Which of them are red, of one run of a sound node."""
    found = []
    if replicas.taken(replicas.simulated(chance, world)).slower:
        found.append("replicas")
    if objective.taken(objective.good_requests(chance, good, 0.0)) == "fail":
        found.append("objective")
    node = record.Node()
    if slower(record.group(chance, node, 10, 1), record.single(chance, record.Node(outliers=0))):
        found.append("medians")
    before = [record.with_replicas(chance, world.count, 1) for _ in range(10)]
    last = record.with_replicas(chance, world.count, 1)
    if slower(before, last, of_replicas(last)):
        found.append("replica medians")
    return found


def rates(world: replicas.World, good: float, runs: int) -> Counter[str]:
    """Runs in which each was red, and any was."""
    chance, counts = random.Random(18), Counter[str]()
    for _ in range(runs):
        red = verdicts(chance, world, good)
        counts.update([*red, *(["any"] if red else [])])
    return counts


@in_subtests(
    ("count", "spread", "good"), [(2, 0.04, 0.95), (4, 0.02, 0.97), (8, 0.04, 0.95)], one_in=3
)
def test_sound_run_is_red_in_at_most_one_of_a_hundred(
    count: int, spread: float, good: float
) -> None:
    runs = len(sample(range(RUNS), 4))
    found = rates(replicas.World(count, spread), good, runs)
    print(count, spread, good, {name: times / runs for name, times in found.items()})
    # Of a part of the runs chance may take three deviations more; of all of them none.
    more = 3 * (runs * false_red.RUN) ** 0.5 if runs < RUNS else 0.0
    assert found["any"] <= runs * false_red.RUN + more


def test_shares_leave_a_quarter_for_what_is_not_normal() -> None:
    objective_ = 4 * false_red.OBJECTIVE
    spent = false_red.REPLICAS + false_red.MEDIANS + false_red.REPLICA_MEDIANS + objective_
    assert spent <= 0.75 * false_red.RUN
