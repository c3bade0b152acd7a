"""CPUs of a node's replicas: whole cores of their NUMA nodes, some left to nobody. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.node.lib import cpulist

Cores = Mapping[int, list[list[int]]]

# Physical cores of each NUMA node that no replica gets: for the gateway, the latency client and
# interrupts; and how many each replica must keep for that. Small machines share instead. Inferred.
RESERVED_CORES = 2
_CORES_A_REPLICA = 4


class LayoutError(ValueError):
    """The node cannot carry the asked replicas; the message says what is missing."""


def by_node(state: Mapping[str, Any]) -> dict[int, list[list[int]]]:
    """CPUs of each NUMA node, grouped by physical core: SMT siblings must stay with one replica."""
    core_of = {cpu: core for core in _siblings(state) for cpu in core}
    cores: dict[int, list[list[int]]] = {}
    for node in items(state, "numa"):
        number, listed = node.get("id"), node.get("cpus")
        if isinstance(number, int) and isinstance(listed, str):
            here = _parsed(listed)
            groups = {tuple(c for c in core_of.get(cpu, (cpu,)) if c in here) for cpu in here}
            cores[number] = sorted(list(group) for group in groups)
    return cores


def _siblings(state: Mapping[str, Any]) -> list[tuple[int, ...]]:
    cpus = state.get("cpus")
    listed = cpus.get("siblings") if isinstance(cpus, Mapping) else None
    return [tuple(_parsed(core)) for core in listed] if isinstance(listed, list) else []


def _parsed(text: object) -> list[int]:
    try:
        return cpulist.parse(str(text))
    except ValueError as error:
        raise LayoutError(f"CPUs of a NUMA node or core: {error}") from None


def items(section: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of the observation; empty when it was not measured."""
    items = section.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def shares(cores: Cores, homes: Sequence[tuple[int, ...]], apart: str | None) -> list[str]:
    """Each replica's CPUs; replicas of one NUMA node get disjoint slices of its cores."""
    free = {node: _free(cores, node, homes, apart) for nodes in homes for node in nodes}
    return [
        cpulist.format(
            sorted(cpu for node in nodes for cpu in _slice_of(free, node, number, homes))
        )
        for number, nodes in enumerate(homes)
    ]


def _free(
    of_node: Cores, node: int, homes: Sequence[tuple[int, ...]], apart: str | None
) -> list[list[int]]:
    """A node's cores for replicas: all but the reserved ones, or all where they are few."""
    cores = of_node.get(node) or []
    if not cores:
        raise LayoutError(f"NUMA node {node} has GPUs but no CPUs")
    tenants = sum(node in nodes for nodes in homes)
    reserved = set(cpulist.parse(apart)) if apart else set()
    others = [core for core in cores if not reserved & set(core)]
    beyond = max(RESERVED_CORES - (len(cores) - len(others)), 0)
    room = len(others) - beyond >= _CORES_A_REPLICA * tenants
    return others[beyond:] if room else (others or cores)


def _slice_of(
    free: Mapping[int, list[list[int]]], node: int, number: int, homes: Sequence[tuple[int, ...]]
) -> list[int]:
    tenants = [index for index, nodes in enumerate(homes) if node in nodes]
    cores = _slice(free[node], tenants.index(number), len(tenants))
    return [cpu for core in cores for cpu in core]


def _slice(cores: list[list[int]], position: int, parts: int) -> list[list[int]]:
    if len(cores) < parts:
        # Fewer cores than replicas happens only on small test machines; there, share.
        return [cores[position % len(cores)]]
    start, end = (len(cores) * edge // parts for edge in (position, position + 1))
    return cores[start:end]
