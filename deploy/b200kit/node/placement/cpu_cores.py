"""Physical cores of each NUMA node, from what the kernel lists. Pure.

A kernel never lists a CPU in two NUMA nodes, nor a core that lies in two: such a reading is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.node.lib import cpulist

Cores = Mapping[int, list[list[int]]]


class LayoutError(ValueError):
    """The node cannot carry the asked replicas; the message says what is missing."""


def by_node(state: Mapping[str, Any]) -> dict[int, list[list[int]]]:
    """CPUs of each NUMA node, grouped by physical core: SMT siblings must stay with one replica."""
    node_of = _nodes(state)
    core_of = _cores(state)
    cores: dict[int, list[list[int]]] = {number: [] for number in _numbers(state)}
    for first in sorted(node_of):
        core = core_of.get(first)
        if core is None:
            raise LayoutError(
                f"the physical core of CPU {first} was not read (cpus.siblings): "
                "a replica could get half a core"
            )
        homes = {node_of.get(cpu) for cpu in core}
        if len(homes) > 1:
            raise LayoutError(f"the core of CPUs {cpulist.format(core)} is not on one NUMA node")
        if first == core[0]:
            cores[node_of[first]].append(list(core))
    return cores


def _numbers(state: Mapping[str, Any]) -> list[int]:
    numbers = [whole(node.get("id")) for node in items(state, "numa")]
    for number in numbers:
        if number is None:
            raise LayoutError("a NUMA node was listed without its number")
        if numbers.count(number) > 1:
            raise LayoutError(f"NUMA node {number} is listed twice")
    return [number for number in numbers if number is not None]


def _nodes(state: Mapping[str, Any]) -> dict[int, int]:
    """The NUMA node of each CPU."""
    node_of: dict[int, int] = {}
    for number, node in zip(_numbers(state), items(state, "numa"), strict=True):
        for cpu in _parsed(node.get("cpus"), f"the CPUs of NUMA node {number}"):
            if cpu in node_of:
                raise LayoutError(f"CPU {cpu} is on NUMA node {node_of[cpu]} and on {number}")
            node_of[cpu] = number
    cpus = state.get("cpus")
    online = cpus.get("online") if isinstance(cpus, Mapping) else None
    if isinstance(online, str) and (off := {*node_of} - {*_parsed(online, "the online CPUs")}):
        raise LayoutError(f"CPUs {cpulist.format(off)} are on a NUMA node and not online")
    return node_of


def _cores(state: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """The CPUs of each CPU's core, itself included."""
    cpus = state.get("cpus")
    core_of: dict[int, tuple[int, ...]] = {}
    listed = cpus.get("siblings") if isinstance(cpus, Mapping) else None
    for text in listed if isinstance(listed, list) else ():
        core = tuple(_parsed(text, "the CPUs of a core"))
        for cpu in core:
            if core_of.setdefault(cpu, core) != core:
                raise LayoutError(f"CPU {cpu} is listed in two cores")
    return core_of


def _parsed(text: object, what: str) -> list[int]:
    if not isinstance(text, str):
        raise LayoutError(f"{what} were not read")
    try:
        return cpulist.parse(text)
    except ValueError as error:
        raise LayoutError(f"{what}: {error}") from None


def whole(value: object) -> int | None:
    """A whole number from 0 on; None for anything else, true and false included."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def items(section: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of the observation; empty when it was not measured."""
    items = section.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
