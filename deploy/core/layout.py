"""Which GPUs, NUMA nodes, CPUs and port each replica gets. Pure; reads the node's observation.

A replica's GPUs come from one NUMA node while any node has enough left, because a tensor-parallel
group across sockets pays for it on every step. The map is always read from sysfs, never computed:
real B200 hosts have two, four or six NUMA nodes, some of them without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deploy.core import cpulist


class LayoutError(ValueError):
    """The node cannot carry the asked replicas; the message says what lacks."""


@dataclass(frozen=True)
class Gpu:
    """A GPU with the NUMA node its PCI device hangs on."""

    index: int
    uuid: str
    numa_node: int


@dataclass(frozen=True)
class Replica:
    """One vLLM instance and everything it is pinned to."""

    replica: int
    gpus: tuple[int, ...]
    uuids: tuple[str, ...]
    numa_nodes: tuple[int, ...]
    cpus: str
    port: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the report and the units."""
        return asdict(self)


def plan(
    state: Mapping[str, Any], replicas: int, gpus_each: int, ports: tuple[int, ...]
) -> list[Replica]:
    """One `Replica` a port; raises LayoutError when the observation cannot carry them."""
    groups = _groups(_gpus(state), replicas, gpus_each)
    cores_of = _node_cores(state)
    sharing = [tuple(sorted({gpu.numa_node for gpu in group})) for group in groups]
    return [
        Replica(
            replica=number,
            gpus=tuple(gpu.index for gpu in group),
            uuids=tuple(gpu.uuid for gpu in group),
            numa_nodes=nodes,
            cpus=cpulist.format(_share(nodes, number, sharing, cores_of)),
            port=port,
        )
        for number, (group, nodes, port) in enumerate(zip(groups, sharing, ports, strict=True))
    ]


def _gpus(state: Mapping[str, Any]) -> list[Gpu]:
    numa = {device.get("address"): device.get("numa_node") for device in _pci_gpus(state)}
    found = []
    for gpu in _items(state, "gpus"):
        node = numa.get(gpu.get("pci_address"))
        if not isinstance(node, int) or node < 0:
            raise LayoutError(f"GPU {gpu.get('index')} has no NUMA node in sysfs")
        found.append(Gpu(gpu["index"], gpu["uuid"], node))
    return sorted(found, key=lambda gpu: gpu.index)


def _pci_gpus(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pci = state.get("pci")
    return _items(pci, "gpus") if isinstance(pci, Mapping) else []


def _items(section: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of the observation; empty when it was not measured."""
    items = section.get(name)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _groups(gpus: list[Gpu], replicas: int, size: int) -> list[list[Gpu]]:
    if replicas * size > len(gpus):
        raise LayoutError(f"{replicas} replicas of {size} GPUs, but the node shows {len(gpus)}")
    groups: list[list[Gpu]] = []
    left = list(gpus)
    while len(groups) < replicas:
        group = _within_one_node(left, size) or left[:size]
        groups.append(group)
        left = [gpu for gpu in left if gpu not in group]
    return sorted(groups, key=lambda group: group[0].index)


def _within_one_node(gpus: list[Gpu], size: int) -> list[Gpu]:
    for node in dict.fromkeys(gpu.numa_node for gpu in gpus):
        here = [gpu for gpu in gpus if gpu.numa_node == node]
        if len(here) >= size:
            return here[:size]
    return []


def _node_cores(state: Mapping[str, Any]) -> dict[int, list[list[int]]]:
    """CPUs of each NUMA node, grouped by physical core: SMT siblings must stay with one replica."""
    core_of = {cpu: core for core in _siblings(state) for cpu in core}
    cores: dict[int, list[list[int]]] = {}
    for node in _items(state, "numa"):
        if isinstance(node.get("cpus"), str):
            here = cpulist.parse(node["cpus"])
            groups = {tuple(c for c in core_of.get(cpu, (cpu,)) if c in here) for cpu in here}
            cores[node["id"]] = sorted(list(group) for group in groups)
    return cores


def _siblings(state: Mapping[str, Any]) -> list[tuple[int, ...]]:
    cpus = state.get("cpus")
    listed = cpus.get("siblings") if isinstance(cpus, Mapping) else None
    return [tuple(cpulist.parse(core)) for core in listed] if isinstance(listed, list) else []


def _share(
    nodes: tuple[int, ...],
    number: int,
    sharing: list[tuple[int, ...]],
    cores_of: Mapping[int, list[list[int]]],
) -> list[int]:
    """This replica's slice of the cores of its nodes; replicas of one node get disjoint slices."""
    chosen: list[int] = []
    for node in nodes:
        cores = cores_of.get(node) or []
        if not cores:
            raise LayoutError(f"NUMA node {node} has GPUs but no CPUs")
        tenants = [index for index, others in enumerate(sharing) if node in others]
        slice_ = _slice(cores, tenants.index(number), len(tenants))
        chosen += [cpu for core in slice_ for cpu in core]
    return sorted(chosen)


def _slice(cores: list[list[int]], position: int, parts: int) -> list[list[int]]:
    if len(cores) < parts:
        # Fewer cores than replicas happens only on small test machines; there, share.
        return [cores[position % len(cores)]]
    start, end = (len(cores) * edge // parts for edge in (position, position + 1))
    return cores[start:end]
