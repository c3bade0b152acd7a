"""The node's map as it was observed: GPUs, NUMA nodes, cores. Pure.

Readings that contradict each other are refused, in one line: a plan made from them would bind a
replica to CPUs that are another's. The map is always read from sysfs, never computed: real B200
hosts have two, four, six or eight NUMA nodes, some of them without a GPU. A kernel lists no CPU
in two NUMA nodes, and no core that lies in two: such a reading is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class MapGpu:
    """A GPU with the NUMA node its PCI device hangs on."""

    index: int
    uuid: str
    numa_node: int


@dataclass(frozen=True)
class NodeMap:
    """The node's map: GPUs, and for each NUMA node its cores (SMT siblings together) and memory."""

    gpus: tuple[MapGpu, ...]
    cores: Cores
    bare: frozenset[int] = field(default_factory=frozenset)
    """NUMA nodes without memory."""
    sockets: Mapping[int, int] = field(default_factory=dict)
    """Physical socket of each NUMA node with CPUs; {} where the kernel's are not to be had."""
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Of each NUMA node to each, as the firmware has them."""

    def node_of(self) -> dict[int, int]:
        """The NUMA node of each GPU, by index."""
        return {gpu.index: gpu.numa_node for gpu in self.gpus}

    def cpus(self, nodes: Iterable[int]) -> set[int]:
        """The CPUs of some NUMA nodes."""
        return {cpu for node in nodes for core in self.cores.get(node, ()) for cpu in core}

    def socket(self, node: int) -> int:
        """The socket of a NUMA node; one without CPUs is of the nearest node's.

        Where it was not read: firmware numbers the nodes of one socket after another's.
        """
        if self.sockets:
            return self.sockets[node if node in self.sockets else self._nearest(node, self.sockets)]
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
        return self._nearest(node, near)

    def _nearest(self, node: int, among: Iterable[int]) -> int:
        row = self.distances.get(node, {})
        return min(among, key=lambda n: (row.get(n, 0), abs(n - node), n))


def survey(state: Mapping[str, Any]) -> NodeMap:
    """The map in an observation; raises LayoutError where it is unknown or contradicts itself."""
    cores = by_node(state)
    bare = {node["id"] for node in items(state, "numa") if _has_none(node)}
    gpus, nodes = tuple(_gpus(state, cores)), items(state, "numa")
    rows = {node["id"]: node.get("distances") for node in nodes}
    distances = {
        number: dict(zip(rows, row, strict=False))
        for number, row in rows.items()
        if isinstance(row, list)
    }
    return NodeMap(gpus, cores, frozenset(bare), _sockets(state, cores), distances)


def _sockets(state: Mapping[str, Any], cores: Cores) -> dict[int, int]:
    """The socket of each NUMA node with CPUs; {} where a node has several, as guests are shown."""
    cpus = state.get("cpus")
    listed = cpus.get("sockets") if isinstance(cpus, Mapping) else None
    texts = listed if isinstance(listed, list) else ()
    sockets = [{*cpulist.parse(text)} for text in texts if isinstance(text, str)]
    found = {}
    for node, mine in ((node, {core[0] for core in of}) for node, of in cores.items() if of):
        of_node = [number for number, those in enumerate(sockets) if those & mine]
        if len(of_node) != 1:
            return {}
        found[node] = of_node[0]
    return found


def _has_none(node: Mapping[str, Any]) -> bool:
    """Whether a NUMA node has no memory; its reading is older where it does not say."""
    memory = whole(node.get("memory_kib", 1))
    if memory is None:
        raise LayoutError(f"the memory of NUMA node {node['id']} was not read")
    return memory == 0


def _gpus(state: Mapping[str, Any], cores: Cores) -> list[MapGpu]:
    numa = _nodes_by_address(state)
    only = next(iter(cores)) if len(cores) == 1 and {*numa.values()} == {-1} else None
    found, seen = [], dict[object, str]()
    for gpu in items(state, "gpus"):
        index, uuid, address = whole(gpu.get("index")), gpu.get("uuid"), gpu.get("pci_address")
        if index is None or not isinstance(uuid, str) or not uuid:
            raise LayoutError(f"GPU {gpu.get('index')} was not read: its index or UUID is missing")
        for what, value in (("index", index), ("UUID", uuid), ("PCI address", str(address))):
            if (what, value) in seen:
                raise LayoutError(f"two GPUs have the {what} {value}")
            seen[what, value] = uuid
        node = only if only is not None else whole(numa.get(str(address)))
        if node is None:
            raise LayoutError(f"GPU {index} has no NUMA node in sysfs")
        if not cores:
            raise LayoutError("the NUMA nodes were not read")
        if node not in cores:
            raise LayoutError(f"GPU {index} hangs on NUMA node {node}, which sysfs does not list")
        found.append(MapGpu(index, uuid, node))
    return sorted(found, key=lambda gpu: gpu.index)


def _nodes_by_address(state: Mapping[str, Any]) -> dict[str, object]:
    """What the kernel says of each GPU's NUMA node; -1 where it does not know."""
    pci = state.get("pci")
    found: dict[str, object] = {}
    for device in items(pci, "gpus") if isinstance(pci, Mapping) else ():
        address = str(device.get("address"))
        if address in found:
            raise LayoutError(f"the PCI device {address} is listed twice")
        found[address] = device.get("numa_node")
    return found
