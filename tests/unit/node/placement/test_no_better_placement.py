"""No grouping of the GPUs costs less than the planned one: every other one is tried."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from b200kit.node.lib import cpulist
from b200kit.node.placement.layout import Cost, Replica, Shape, cost, place, shared
from b200kit.node.placement.machine import NodeMap, survey
from tests.subtests import in_subtests
from tests.unit.node.placement.test_layout import node, plan

MAPS = 60
"""More by hand: `small_map(seed)` for any number of seeds."""


@dataclass(frozen=True)
class Case:
    """A node, and what is asked of it."""

    state: Any
    replicas: int
    size: int
    kept: dict[str, str]

    def plan(self) -> list[Replica]:
        """The plan for it."""
        ports = range(self.replicas)
        return place(self.state, self.replicas, Shape(tp=self.size), ports, kept=self.kept)


def small_map(seed: int) -> Case:
    """A node with up to eight GPUs on up to six NUMA nodes, and replicas that fit on it.

    Every second node has two threads a core; the client or the gateway has a CPU of its own where
    that leaves the NUMA node another core.
    """
    draw = random.Random(seed)
    nodes = draw.randint(1, 6)
    gpus = [draw.randrange(nodes) for _ in range(draw.randint(1, 8))]
    counts = [draw.choice((1, 2, 3, 4, 8, 24)) for _ in range(nodes)]
    first = [sum(counts[:number]) for number in range(nodes)]
    total, threads = sum(counts), draw.choice((1, 2))
    cpus = {
        number: ",".join(
            cpulist.format(range(start + offset, start + offset + count))
            for offset in range(0, total * threads, total)
        )
        for number, (start, count) in enumerate(zip(first, counts, strict=True))
    }
    cores = [
        ",".join(str(cpu + offset) for offset in range(0, total * threads, total))
        for cpu in range(total)
    ]
    roomy = [start for start, count in zip(first, counts, strict=True) if count > 1]
    kept = {draw.choice(("client_cpus", "gateway.cpus")): str(draw.choice(roomy))} if roomy else {}
    size = draw.choice([size for size in (1, 2, 3, 4, 8) if size <= len(gpus)])
    return Case(node(gpus, cpus, cores), draw.randint(1, len(gpus) // size), size, kept)


def every_grouping(gpus: tuple[int, ...], replicas: int, size: int) -> Iterator[list[Any]]:
    """Each way to take disjoint groups of GPUs, GPUs left over included."""
    if not replicas:
        yield []
    elif len(gpus) >= replicas * size:
        first, rest = gpus[0], gpus[1:]
        for others in combinations(rest, size - 1):
            left = tuple(gpu for gpu in rest if gpu not in others)
            for more in every_grouping(left, replicas - 1, size):
                yield [(first, *others), *more]
        yield from every_grouping(rest, replicas, size)


def cost_of(machine: NodeMap, groups: list[Any], kept: dict[str, str]) -> Cost:
    """The plan's own cost of groups of GPU indexes."""
    home = machine.node_of()
    return cost(machine, [tuple(home[gpu] for gpu in group) for group in groups], kept)


def as_printed(machine: NodeMap, layout: list[Replica]) -> tuple[int, int]:
    """Groups on two sockets and NUMA nodes beyond one, counted from what is printed."""
    home = machine.node_of()
    nodes = [{home[gpu] for gpu in replica.gpus} for replica in layout]
    crossings = sum(len({machine.socket(node) for node in these}) > 1 for these in nodes)
    return crossings, sum(len(these) - 1 for these in nodes)


def wrong_cpus(case: Case, machine: NodeMap, layout: list[Replica]) -> str:
    """Whether a core is split, kept for another, or shared without need or without a word."""
    home = machine.node_of()
    kept = {cpu for text in case.kept.values() for cpu in cpulist.parse(text)}
    said = {*cpulist.parse(shared(layout))}
    for number, cores in machine.cores.items():
        tenants = sum(any(home[gpu] == number for gpu in one.gpus) for one in layout)
        room = sum(not kept & {*core} for core in cores)
        for core in ({*core} for core in cores):
            mine = [{*cpulist.parse(one.cpus)} for one in layout]
            holders = [cpus for cpus in mine if cpus & core]
            if any(not core <= cpus for cpus in holders) or (holders and core & kept):
                return f"core {core} is not a whole one of one replica"
            if len(holders) > 1 and (tenants <= room or not core <= said):
                return f"core {core} is several replicas'"
    return ""


def wrong_with(seed: int) -> str:
    """What is wrong with the plan for a small map; nothing, one hopes."""
    case = small_map(seed)
    machine, layout = survey(case.state), case.plan()
    mine = cost_of(machine, [replica.gpus for replica in layout], case.kept)
    indexes = tuple(gpu.index for gpu in machine.gpus)
    others = every_grouping(indexes, case.replicas, case.size)
    least = min(cost_of(machine, groups, case.kept) for groups in others)
    if mine != least:
        return f"{mine}, but {least} can be had"
    if as_printed(machine, layout) != mine[:2]:
        return f"{mine}, but printed are {as_printed(machine, layout)}"
    cpus = [len(cpulist.parse(replica.cpus)) for replica in layout]
    if min(cpus) < -mine.fewest_cores:
        return f"{mine}, but a replica is printed with {min(cpus)} CPUs"
    return wrong_cpus(case, machine, layout)


@in_subtests("seed", range(MAPS))
def test_no_other_placement_costs_less(seed: int) -> None:
    assert not wrong_with(seed)


def test_pairs_are_formed_for_all_and_not_one_after_another() -> None:
    # The fullest nodes first, as one would, leaves GPUs 1 and 4 and 7 for two groups.
    state = node([0, 0, 1, 2, 2, 3], {n: f"{n * 8}-{n * 8 + 7}" for n in range(8)})
    layout = plan(state, 2, 3, (1, 2))
    assert [replica.gpus for replica in layout] == [(0, 1, 2), (3, 4, 5)]


def test_replicas_that_need_not_share_a_node_do_not() -> None:
    state = node([0] * 4 + [1] * 4, {0: "0-31", 1: "32-63"})
    assert [replica.numa_nodes for replica in plan(state, 2, 2, (1, 2))] == [(0,), (1,)]
