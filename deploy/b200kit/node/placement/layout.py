"""Which GPUs, NUMA nodes, CPUs and port each replica gets. Pure; reads the node's observation.

A replica's GPUs come from one NUMA node while any node has enough left, else from one socket, as a
tensor-parallel group across sockets pays for it on every step. The map is always read from sysfs,
never computed: real B200 hosts have two, four, six or eight NUMA nodes, some of them without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from b200kit.node.lib import cpulist
from b200kit.node.placement import cpu_cores as cores
from b200kit.node.placement.cpu_cores import LayoutError, items


@dataclass(frozen=True)
class Gpu:
    """A GPU with the NUMA node its PCI device hangs on."""

    index: int
    uuid: str
    numa_node: int


@dataclass(frozen=True)
class Shape:
    """What every replica of a node is like: parallelism, batch limits, KV tokens when computed.

    *max_num_seqs* and *max_num_batched_tokens* are those of one engine core, so of one DP rank;
    *kv_tokens* are the whole replica's.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    kv_tokens: int | None = None

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True)
class Replica:
    """One serving instance and everything it is pinned to.

    *numa_nodes* are those its memory comes from; *cpus* lie on the nodes of its GPUs.
    """

    replica: int
    gpus: tuple[int, ...]
    uuids: tuple[str, ...]
    numa_nodes: tuple[int, ...]
    cpus: str
    port: int
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    kv_tokens: int | None = None

    @property
    def spans(self) -> bool:
        """Whether its GPUs hang on more than one NUMA node."""
        return len(self.numa_nodes) > 1

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the report and the units."""
        return asdict(self)


@dataclass(frozen=True)
class Machine:
    """The node's map: GPUs, and for each NUMA node its cores (SMT siblings together) and memory."""

    gpus: tuple[Gpu, ...]
    cores: Mapping[int, list[list[int]]]
    bare: frozenset[int] = field(default_factory=frozenset)
    """NUMA nodes without memory."""

    def socket(self, node: int) -> int:
        """The socket of a NUMA node: firmware numbers the nodes of one socket after another's."""
        having = {number for number, cores in self.cores.items() if cores}
        known = sorted(having | {gpu.numa_node for gpu in self.gpus})
        return 0 if node in known[: (len(known) + 1) // 2] else 1

    def memory_of(self, node: int) -> int:
        """Where memory for a node comes from: itself, or the nearest of its socket that has any."""
        if node not in self.bare:
            return node
        having = [n for n in sorted(self.cores) if n not in self.bare]
        near = [n for n in having if self.socket(n) == self.socket(node)] or having
        if not near:
            raise LayoutError("no NUMA node of the machine has memory")
        return min(near, key=lambda n: (abs(n - node), n))


def place(
    state: Mapping[str, Any],
    replicas: int,
    shape: Shape,
    ports: Sequence[int],
    cpus: Sequence[str] = (),
    apart: str | None = None,
) -> list[Replica]:
    """One `Replica` a port; raises LayoutError when the observation cannot carry them.

    *cpus* are lists asked for, one a replica, instead of those planned; no planned list has a CPU
    of *apart*, the latency client's.
    """
    machine = survey(state)
    groups = _groups(machine, replicas, shape)
    homes = [tuple(sorted({gpu.numa_node for gpu in group})) for group in groups]
    given = list(cpus) or cores.shares(machine.cores, homes, apart)
    return [
        Replica(
            replica=number,
            gpus=tuple(gpu.index for gpu in group),
            uuids=tuple(gpu.uuid for gpu in group),
            numa_nodes=tuple(sorted({machine.memory_of(node) for node in nodes})),
            cpus=mine,
            port=port,
            **vars(shape),
        )
        for number, (group, nodes, mine, port) in enumerate(
            zip(groups, homes, given, ports, strict=True)
        )
    ]


def reserved(state: Mapping[str, Any], layout: Sequence[Replica]) -> str:
    """CPUs no replica has: for the gateway, the client and interrupts; "" on small machines.

    Also "" for a nominal layout, made before any GPU has been seen.
    """
    if not all(replica.gpus for replica in layout):
        return ""
    taken = {cpu for replica in layout for cpu in cpulist.parse(replica.cpus)}
    every = {cpu for cores in survey(state).cores.values() for core in cores for cpu in core}
    return cpulist.format(sorted(every - taken))


def survey(state: Mapping[str, Any]) -> Machine:
    """The map in an observation; raises LayoutError for a GPU whose NUMA node is not known."""
    nodes = [n for n in items(state, "numa") if isinstance(n.get("id"), int)]
    bare = {n["id"] for n in nodes if n.get("memory_kib") == 0}
    return Machine(tuple(_gpus(state)), cores.by_node(state), frozenset(bare))


def _gpus(state: Mapping[str, Any]) -> list[Gpu]:
    numa = {str(d.get("address")): d.get("numa_node") for d in _pci_gpus(state)}
    found = []
    only = _only_node(state, numa.values())
    for gpu in items(state, "gpus"):
        node = numa.get(str(gpu.get("pci_address"))) if only is None else only
        if not isinstance(node, int) or node < 0:
            raise LayoutError(f"GPU {gpu.get('index')} has no NUMA node in sysfs")
        index, uuid = gpu.get("index"), gpu.get("uuid")
        if not isinstance(index, int) or not isinstance(uuid, str):
            raise LayoutError(f"GPU {index} was not read: its index or UUID is missing")
        found.append(Gpu(index, uuid, node))
    return sorted(found, key=lambda gpu: gpu.index)


def _only_node(state: Mapping[str, Any], places: Iterable[object]) -> int | None:
    """The one NUMA node of a machine whose kernel does not say where its GPUs are (-1 for all)."""
    nodes = items(state, "numa")
    unsaid = all(place == -1 for place in places)
    return nodes[0].get("id") if unsaid and len(nodes) == 1 else None


def _pci_gpus(state: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    pci = state.get("pci")
    return items(pci, "gpus") if isinstance(pci, Mapping) else []


def _groups(machine: Machine, replicas: int, shape: Shape) -> list[list[Gpu]]:
    size = shape.gpus
    if replicas * size > len(machine.gpus):
        shown = len(machine.gpus)
        raise LayoutError(f"{replicas} replicas of {size} GPUs, but the node shows {shown}")
    groups: list[list[Gpu]] = []
    left = list(machine.gpus)
    while len(groups) < replicas:
        group = _within(left, size, lambda gpu: gpu.numa_node)
        group = group or _fewest_nodes(left, size, machine)
        groups.append(_in_rank_order(group, shape, machine))
        left = [gpu for gpu in left if gpu not in group]
    return sorted(groups, key=lambda group: min(gpu.index for gpu in group))


def _within(gpus: Sequence[Gpu], size: int, place_of: Callable[[Gpu], int]) -> list[Gpu]:
    """The first *size* GPUs that share a place; none when no place has so many."""
    for where in dict.fromkeys(map(place_of, gpus)):
        here = [gpu for gpu in gpus if place_of(gpu) == where]
        if len(here) >= size:
            return here[:size]
    return []


def _fewest_nodes(gpus: Sequence[Gpu], size: int, machine: Machine) -> list[Gpu]:
    """GPUs of one socket when one has enough, and from as few NUMA nodes as that allows."""
    left = {node: sum(gpu.numa_node == node for gpu in gpus) for node in machine.cores}
    full_first = sorted(gpus, key=lambda gpu: -left.get(gpu.numa_node, 0))
    group = _within(full_first, size, lambda gpu: machine.socket(gpu.numa_node))
    return sorted(group or full_first[:size], key=lambda gpu: gpu.index)


def _in_rank_order(group: list[Gpu], shape: Shape, machine: Machine) -> list[Gpu]:
    """Neighbours in sequence where a replica has several TP groups: ranks are dealt in order."""
    if shape.gpus == shape.tp:
        return group
    return sorted(group, key=lambda gpu: (machine.socket(gpu.numa_node), gpu.numa_node, gpu.index))
