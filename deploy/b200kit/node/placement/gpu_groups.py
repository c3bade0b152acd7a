"""Which GPUs form a replica: of all ways to group them, one that costs least. Pure.

GPUs of one NUMA node are alike, so groupings differ by their nodes alone, and there are few: some
hundreds for eight GPUs on eight nodes. All of them are weighed; none is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from b200kit.node.placement import cpu_shares
from b200kit.node.placement.cpu_cores import LayoutError
from b200kit.node.placement.cpu_shares import Kept
from b200kit.node.placement.machine import Gpu, Machine

Nodes = tuple[int, ...]
"""The NUMA node of each GPU of a group, in rising order."""


class Cost(NamedTuple):
    """What a grouping costs; the first figure that differs decides, less is better."""

    crossings: int
    """Groups on both sockets: each of their steps goes through the link between them."""
    extra_nodes: int
    """NUMA nodes beyond one, over all groups: processes of a replica that are far from another."""
    fewest_cores: int
    """Cores of the replica that gets fewest, negative."""


def cost(machine: Machine, homes: Sequence[Nodes], kept: Kept) -> Cost:
    """The cost of groups with GPUs on these nodes."""
    spans = [tuple(sorted({*nodes})) for nodes in homes]
    crossings = sum(len({machine.socket(node) for node in nodes}) > 1 for nodes in spans)
    extra = sum(len(nodes) - 1 for nodes in spans)
    return Cost(crossings, extra, -cpu_shares.scarcest(machine.cores, spans, kept))


def choose(machine: Machine, replicas: int, size: int, kept: Kept) -> list[list[Gpu]]:
    """The GPUs of each replica; of groupings that cost the same, the lowest indexes."""
    if replicas * size > len(machine.gpus):
        shown = len(machine.gpus)
        raise LayoutError(f"{replicas} replicas of {size} GPUs, but the node shows {shown}")
    ways = _ways([gpu.numa_node for gpu in machine.gpus], replicas, size)
    return min(
        (_dealt(machine.gpus, way) for way in _cheapest(machine, ways, kept)),
        key=lambda groups: [[gpu.index for gpu in group] for group in groups],
    )


def _cheapest(machine: Machine, ways: Iterator[list[Nodes]], kept: Kept) -> list[list[Nodes]]:
    costs = [(cost(machine, way, kept), way) for way in ways]
    least = min(price for price, _ in costs)
    return [way for price, way in costs if price == least]


def _ways(
    left: Sequence[int], replicas: int, size: int, least: Nodes = ()
) -> Iterator[list[Nodes]]:
    """Every choice of groups, each once: groups come in rising order."""
    if not replicas:
        yield []
        return
    for group in sorted({*combinations(sorted(left), size)}):
        if group < least:
            continue
        rest = list(left)
        for node in group:
            rest.remove(node)
        for others in _ways(rest, replicas - 1, size, group):
            yield [group, *others]


def _dealt(gpus: Sequence[Gpu], way: Sequence[Nodes]) -> list[list[Gpu]]:
    """GPUs for the groups, the lowest index of each node first."""
    left = list(gpus)
    groups = []
    for nodes in way:
        group = []
        for node in nodes:
            gpu = next(gpu for gpu in left if gpu.numa_node == node)
            left.remove(gpu)
            group.append(gpu)
        groups.append(sorted(group, key=lambda gpu: gpu.index))
    return sorted(groups, key=lambda group: group[0].index)
