"""CPUs of a node's replicas: whole cores of their NUMA nodes, some left to nobody. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b200kit.node.lib import cpulist
from b200kit.node.placement.machine import Cores, LayoutError

# Physical cores of each NUMA node that no replica gets: for the gateway, the latency client and
# interrupts; and how many each replica must keep for that. Small machines share instead. Inferred.
RESERVED_CORES = 2
_CORES_A_REPLICA = 4

Kept = Mapping[str, str]
"""CPU lists that no replica may have, by the inventory key that asks for them."""


def shares(cores: Cores, homes: Sequence[tuple[int, ...]], kept: Kept) -> list[str]:
    """Each replica's CPUs; replicas of one NUMA node get disjoint slices of its cores."""
    everyone = _free_of_all(cores, homes, kept)
    return [
        cpulist.format(
            sorted(cpu for node in nodes for cpu in _slice_of(everyone, node, number, homes))
        )
        for number, nodes in enumerate(homes)
    ]


def scarcest(cores: Cores, homes: Sequence[tuple[int, ...]], kept: Kept) -> int:
    """Cores of the replica that gets fewest; below one core each they are shared."""
    free = _free_of_all(cores, homes, kept)
    tenants = {node: sum(node in nodes for nodes in homes) for node in free}
    return min(sum(len(free[node]) // tenants[node] for node in nodes) for nodes in homes)


def check_kept(cores: Cores, kept: Kept) -> None:
    """Refuse CPUs to keep free that the node does not have."""
    every = {cpu for groups in cores.values() for core in groups for cpu in core}
    for key, text in kept.items():
        absent = {*cpulist.parse(text)} - every
        if absent:
            raise LayoutError(f"{key}: the node has no CPU {cpulist.format(absent)}")


def _free_of_all(
    cores: Cores, homes: Sequence[tuple[int, ...]], kept: Kept
) -> dict[int, list[list[int]]]:
    return {
        node: _free(cores, node, sum(node in nodes for nodes in homes), kept)
        for node in {node for nodes in homes for node in nodes}
    }


def _free(cores: Cores, node: int, tenants: int, kept: Kept) -> list[list[int]]:
    """A node's cores for replicas: all but the kept and the reserved ones."""
    here = cores.get(node) or []
    if not here:
        raise LayoutError(f"NUMA node {node} has GPUs but no CPUs")
    taken = {cpu for text in kept.values() for cpu in cpulist.parse(text)}
    others = [core for core in here if not taken & {*core}]
    if not others:
        keys = " and ".join(kept)
        raise LayoutError(f"{keys}: no core of NUMA node {node} is left for the replicas there")
    room = len(others) - RESERVED_CORES >= _CORES_A_REPLICA * tenants
    return others[RESERVED_CORES:] if room else others


def _slice_of(free: Cores, node: int, number: int, homes: Sequence[tuple[int, ...]]) -> list[int]:
    tenants = [index for index, nodes in enumerate(homes) if node in nodes]
    cores = _slice(free[node], tenants.index(number), len(tenants))
    return [cpu for core in cores for cpu in core]


def _slice(cores: list[list[int]], position: int, parts: int) -> list[list[int]]:
    if len(cores) < parts:
        # Fewer cores than replicas: each shares one, and `layout.shared` says so.
        return [cores[position % len(cores)]]
    start, end = (len(cores) * edge // parts for edge in (position, position + 1))
    return cores[start:end]
