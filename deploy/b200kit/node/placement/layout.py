"""Which GPUs, NUMA nodes, CPUs and port each replica gets. Pure; reads the node's observation.

GPUs are grouped at the least cost (`Cost`): on one socket, as a tensor-parallel group across
sockets pays for it on every step, and on as few NUMA nodes as possible. GPUs of one NUMA node are
alike, so groupings differ by their nodes alone, and there are few: some hundreds for eight GPUs on
eight nodes. All of them are weighed; none is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from b200kit.node.lib import cpulist
from b200kit.node.placement import cpu_shares
from b200kit.node.placement.cpu_shares import Kept
from b200kit.node.placement.machine import LayoutError, MapGpu, NodeMap, survey

Nodes = tuple[int, ...]
"""The NUMA node of each GPU of a group, in rising order."""


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


def place(
    state: Mapping[str, Any],
    replicas: int,
    shape: Shape,
    ports: Sequence[int],
    cpus: Sequence[str] = (),
    kept: Kept | None = None,
) -> list[Replica]:
    """One `Replica` a port; raises LayoutError when the observation cannot carry them.

    *cpus* are lists asked for, one a replica, instead of those planned. No planned list has a CPU
    of *kept*: those of the latency client and of the gateway.
    """
    machine = survey(state)
    cpu_shares.check_kept(machine.cores, kept or {})
    chosen = choose(machine, replicas, shape.gpus, kept or {})
    groups = [_in_rank_order(group, shape, machine) for group in chosen]
    homes = [tuple(sorted({gpu.numa_node for gpu in group})) for group in groups]
    given = _asked(machine, homes, cpus) or cpu_shares.shares(machine.cores, homes, kept or {})
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


def rotated(layout: Sequence[Replica], by: int) -> list[Replica]:
    """The same replicas, each with the GPUs that lie so many places further in the layout.

    All else stays with the replica, its CPUs, too: for a diagnosis, not to serve with.
    """
    gpus = [gpu for replica in layout for gpu in zip(replica.gpus, replica.uuids, strict=True)]
    if not gpus or by % len(gpus) == 0:
        return list(layout)
    turned, found, at = gpus[by % len(gpus) :] + gpus[: by % len(gpus)], [], 0
    for replica in layout:
        mine = turned[at : at + len(replica.gpus)]
        at += len(replica.gpus)
        indices, uuids = tuple(index for index, _ in mine), tuple(uuid for _, uuid in mine)
        found.append(replace(replica, gpus=indices, uuids=uuids))
    return found


def reserved(state: Mapping[str, Any], layout: Sequence[Replica]) -> str:
    """CPUs no replica has: for the gateway, the client and interrupts; "" on small machines.

    Also "" for a nominal layout, made before any GPU has been seen.
    """
    if not all(replica.gpus for replica in layout):
        return ""
    taken = {cpu for replica in layout for cpu in cpulist.parse(replica.cpus)}
    machine = survey(state)
    return cpulist.format(machine.cpus(machine.cores) - taken)


def shared(layout: Sequence[Replica]) -> str:
    """CPUs that more than one replica has, as where a node has fewer cores than replicas."""
    return cpulist.repeated(replica.cpus for replica in layout)


def _asked(machine: NodeMap, homes: Sequence[tuple[int, ...]], cpus: Sequence[str]) -> list[str]:
    """The lists asked for, if each has CPUs of this machine on the sockets of its GPUs."""
    every = machine.cpus(machine.cores)
    for number, (nodes, text) in enumerate(zip(homes, cpus, strict=False)):
        mine = {*cpulist.parse(text)}
        if not mine:
            raise LayoutError(f"replica_cpus: replica {number}: {text!r} names no CPU")
        sockets = {machine.socket(node) for node in nodes}
        near = machine.cpus(node for node in machine.cores if machine.socket(node) in sockets)
        for wrong, why in (
            (mine - every, "the node has no CPU {}"),
            (mine - near, "CPU {} is not on the socket of its GPUs"),
        ):
            if wrong:
                message = why.format(cpulist.format(wrong))
                raise LayoutError(f"replica_cpus: replica {number}: {message}")
    return list(cpus)


def _in_rank_order(group: list[MapGpu], shape: Shape, machine: NodeMap) -> list[MapGpu]:
    """Neighbours in sequence where a replica has several TP groups: ranks are dealt in order."""
    if shape.gpus == shape.tp:
        return group
    return sorted(group, key=lambda gpu: (machine.socket(gpu.numa_node), gpu.numa_node, gpu.index))


class Cost(NamedTuple):
    """What a grouping costs; the first figure that differs decides, less is better."""

    crossings: int
    """Groups on both sockets: each of their steps goes through the link between them."""
    extra_nodes: int
    """NUMA nodes beyond one, over all groups: processes of a replica that are far from another."""
    fewest_cores: int
    """Cores of the replica that gets fewest, negative."""


def cost(machine: NodeMap, homes: Sequence[Nodes], kept: Kept) -> Cost:
    """The cost of groups with GPUs on these nodes."""
    spans = [tuple(sorted({*nodes})) for nodes in homes]
    crossings = sum(len({machine.socket(node) for node in nodes}) > 1 for nodes in spans)
    extra = sum(len(nodes) - 1 for nodes in spans)
    return Cost(crossings, extra, -cpu_shares.scarcest(machine.cores, spans, kept))


def choose(machine: NodeMap, replicas: int, size: int, kept: Kept) -> list[list[MapGpu]]:
    """The GPUs of each replica; of groupings that cost the same, the lowest indexes."""
    if replicas * size > len(machine.gpus):
        shown = len(machine.gpus)
        raise LayoutError(f"{replicas} replicas of {size} GPUs, but the node shows {shown}")
    ways = _ways([gpu.numa_node for gpu in machine.gpus], replicas, size)
    return min(
        (_dealt(machine.gpus, way) for way in _cheapest(machine, ways, kept)),
        key=lambda groups: [[gpu.index for gpu in group] for group in groups],
    )


def _cheapest(machine: NodeMap, ways: Iterator[list[Nodes]], kept: Kept) -> list[list[Nodes]]:
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


def _dealt(gpus: Sequence[MapGpu], way: Sequence[Nodes]) -> list[list[MapGpu]]:
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
