"""A node's GPUs and connections from its observation, in the colours of its verdict. Pure.

It is tolerant of any JSON: what was not judged is unknown, never good. Where NVML is silent,
the PCI tree says which GPUs there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from b200kit.node.checks.judge import judge
from b200kit.node.checks.nvlink.fabric import STATES
from b200kit.node.checks.nvlink.p2p import pair_name
from b200kit.node.checks.pcie.bridges import generation as generation_of
from b200kit.node.checks.pcie.bus import Bridge
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Status, Verdict
from b200kit.node.state.view import GpuView, StateView, Unread, View
from b200kit.report.content.graph import (
    BAD,
    GOOD,
    UNKNOWN,
    Fabric,
    GraphGpu,
    GraphNic,
    Lane,
    Links,
    NumaNode,
    Pair,
    Topology,
    worst,
)
from b200kit.report.content.verdict import verdict_of
from b200kit.report.document import clean, integer, items, read

LINKS = (
    "nvlink.links", "nvlink.speed", "nvlink.version", "nvlink.remote", "nvlink.ber",
    "nvlink.errors", "nvlink.recovery",
)  # fmt: skip
FABRIC = ("fabric.state", "fabric.status", "fabric.health", "fabric.mask")
LANE = ("pcie.width", "pcie.max-width", "pcie.generation", "pcie.bus")
PATH = ("pcie.path",)
NUMA = ("numa.gpu",)
COUNT = ("identity.pci-count", "identity.nvml-count")
PEERS = ("p2p.nvlink", "p2p.read", "p2p.write")
_NONE = Verdict()
MOST_GPUS = 16
"""Of more, the further ones have no pairs: the graph has one for each ordered pair."""


class Tones:
    """What a verdict says of each part, by the checks that are about it, and nothing else.

    A check that does not apply to the hardware finds nothing wrong; one that nobody ran leaves its
    connections unknown.
    """

    def __init__(self, verdict: Verdict) -> None:
        tones = {Status.PASS: GOOD, Status.FAIL: BAD}
        self._found: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
        for check in verdict.not_applicable:
            self._found[check].append((GOOD, set()))
        for finding in verdict.findings:
            tone = tones.get(finding.status, UNKNOWN)
            self._found[finding.check].append((tone, {finding.subject, *finding.subjects}))

    def of(self, checks: tuple[str, ...], *names: str) -> str:
        """The tone of a part by its names; unknown where none of the checks was run."""
        found = [entry for check in checks for entry in self._found.get(check, ())]
        # What is of the node and names no part is of each.
        mine = (about == {"node"} or about & {*names} for _, about in found)
        return worst(
            *(tone if is_mine else GOOD for (tone, _), is_mine in zip(found, mine, strict=True))
        )


def tones_of(state: object, expectation: object, verdict: Verdict) -> Tones:
    """By the verdict of a record; where it has none, by what the judgement says of its state."""
    return Tones(verdict if verdict.findings else judge(expectation, state))


def topology(state: object, expectation: object, verdict: Verdict = _NONE) -> Topology:
    """The graph of a node; `why` says why there is no GPU in it."""
    view = StateView(plausible(state))
    nics, colours = view.known_items("pci", "nics"), tones_of(state, expectation, verdict)
    seen = GraphInputs(view, View(expectation), colours, tuple(map(_nic, nics)))
    graph = _graph(seen)
    ends = permutations(range(min(len(graph.gpus), MOST_GPUS)), 2)
    return replace(
        graph,
        nics_why=_why(view, list, "pci", "nics"),
        pairs={(a, b): _pair(seen, graph.gpus, a, b) for a, b in ends},
    )


def outline(state: object, expectation: object) -> Topology:
    """The graph without NICs, pairs and colours, of a state as `plausible` returned it."""
    return _graph(GraphInputs(StateView(state), View(expectation), Tones(_NONE)))


@dataclass(frozen=True)
class GraphInputs:
    """What the graph is made of: observation, expectation, judgement, NICs."""

    view: StateView
    expected: View
    tones: Tones
    nics: tuple[GraphNic, ...] = ()

    def figure(self, name: str) -> int | None:
        """A number of the hardware data."""
        return self.expected.known(int, "hardware", "expect", name, "value")


def _graph(seen: GraphInputs) -> Topology:
    gpus = tuple(_gpus(seen))
    return Topology(
        gpus=gpus,
        numa=tuple(_numa_nodes(seen.view, gpus)),
        nics=seen.nics,
        nics_why="",
        pairs={},
        expected=seen.expected.known(int, "gpu_count"),
        why=_why(seen.view, list, "gpus"),
        count_tone=seen.tones.of(COUNT, "node"),
    )


def _why(view: View, kind: type[object], *keys: str) -> str:
    """Why there is no value of a kind; empty where there is one."""
    try:
        view.get(kind, *keys)
    except Unread as error:
        return error.reason
    return ""


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many bridges two paths from the root share."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared


def _gpus(seen: GraphInputs) -> Iterator[GraphGpu]:
    """The GPUs of NVML in its order, then those that only the PCI tree shows."""
    view = seen.view
    on_pci = {str(e.reading("address")).lower(): e for e in view.known_items("pci", "gpus")}
    listed = view.known_gpus
    addresses = _addresses(listed, list(on_pci))
    for gpu, address in zip(listed, addresses, strict=True):
        pci = on_pci.pop(address, View({"unmeasured": "the GPU is not in the PCI tree"}))
        yield _gpu(gpu.position, address, gpu, pci, seen)
    # Of those without an address, each is one of these: counting both would count it twice.
    for address, pci in list(on_pci.items())[addresses.count("?") :]:
        silent = GpuView({"unmeasured": "NVML does not list it"}, 0)
        yield _gpu(None, address, silent, pci, seen)


def _addresses(listed: Sequence[GpuView], on_pci: Sequence[str]) -> list[str]:
    """The PCI address of each GPU of NVML, "?" where it is not known.

    One that fell off the bus tells none: by elimination it is the one that nobody else is, and of
    several NVML has the order of the bus.
    """
    listed_as = [(gpu.known(str, "pci_address") or "?").lower() for gpu in listed]
    left = sorted(address for address in on_pci if address not in listed_as)
    if len(left) != listed_as.count("?"):
        return listed_as
    rest = iter(left)
    return [next(rest) if address == "?" else address for address in listed_as]


def _gpu(
    position: int | None, address: str, gpu: GpuView, pci: View, seen: GraphInputs
) -> GraphGpu:
    bridges = pci.known_items("bridges")
    path = None if pci.known(list, "bridges") is None else tuple(_address(b) for b in bridges)
    numa = _numa(pci, single=len(seen.view.known_items("numa")) == 1)
    # On the bus it is named by its address, also where NVML does not say which one is its own.
    at = f"the GPU at {address}"
    names = (at,) if position is None else (gpu.subject, at)
    lanes = [_lane(b, seen) for b in bridges]
    nearest, how = _nearest(path, numa, seen.nics)
    return GraphGpu(
        index=gpu.known(int, "index"),
        position=position,
        module=gpu.known(int, "module_id"),
        address=address,
        numa=numa,
        numa_tone=seen.tones.of(NUMA, *names),
        links=_links(gpu, position is not None, seen),
        fabric=_fabric(gpu, position is not None, seen),
        lanes=(*lanes, _own_lane(address, names, gpu, pci, seen)),
        bridges=path,
        nics=nearest,
        nic_path=how,
    )


def _numa_nodes(view: StateView, gpus: tuple[GraphGpu, ...]) -> Iterator[NumaNode]:
    """Every NUMA node, with or without GPUs, then one for GPUs of no known node."""
    ids: set[int | None] = set()
    for entry in view.known_items("numa"):
        number, kib = entry.known(int, "id"), entry.known(int, "memory_kib")
        if number is None or number in ids:
            continue
        ids.add(number)
        yield NumaNode(
            id=number,
            cpus=clean(str(entry.reading("cpus"))) or "none",
            memory="memory unmeasured" if kib is None else f"{kib / 1048576:.0f} GiB",
            gpus=tuple(gpu for gpu in gpus if gpu.numa == number),
        )
    if lost := tuple(gpu for gpu in gpus if gpu.numa not in ids):
        yield NumaNode(None, "unmeasured", "", lost)


def _fabric(gpu: GpuView, listed: bool, seen: GraphInputs) -> Fabric:
    """What a GPU says of its place in the fabric."""
    state, why = gpu.known(int, "fabric", "state"), _why(gpu, int, "fabric", "state")
    others = {"status": "fabric.status", "health_summary": "fabric.health"}
    return Fabric(
        state=clean(f"unmeasured: {why}") if state is None else STATES.get(state, f"state {state}"),
        faults=tuple(
            f"{key.replace('_', ' ')} {gpu.reading('fabric', key)}"
            for key, check in others.items()
            if seen.tones.of((check,), gpu.subject) == BAD
        ),
        tone=seen.tones.of(FABRIC, gpu.subject) if listed else UNKNOWN,
    )


def _address(entry: View) -> str:
    """The address of a bridge, which a GPU lists with its link and a NIC by address alone."""
    return (entry.known(str) or entry.known(str, "address") or "?").lower()


def _numa(device: View, single: bool = False) -> int | None:
    """The NUMA node of a device; -1 means none is named, as on a machine with one node."""
    node = device.known(int, "numa_node")
    return node if node is None or node >= 0 else (0 if single else None)


def _links(gpu: GpuView, listed: bool, seen: GraphInputs) -> Links:
    tone = seen.tones.of(LINKS, gpu.subject) if listed else UNKNOWN
    expected = seen.figure("nvlink.links")
    if gpu.known(list, "links") is None:
        return Links(None, expected, (), (), (), tone)
    found = [_link(entry, position) for position, entry in enumerate(gpu.links)]
    read = [state for _, state, _ in found if state is not None]
    down = tuple(link for link, state, _ in found if state not in (None, 1))
    is_slow = seen.tones.of(("nvlink.speed",), gpu.subject) == BAD
    floor = (seen.figure("nvlink.speed_floor") or 0) if is_slow else 0
    slow = tuple(
        link for link, state, speed in found if state == 1 and speed is not None and speed < floor
    )
    up = read.count(1) if read or not found else None  # a list without a link is a count of none
    states = tuple(
        "unknown" if state is None else "up" if state == 1 else "down" for _, state, _ in found
    )
    return Links(up, expected, states, down, slow, tone)


def _link(entry: View, position: int) -> tuple[int, int | None, int | None]:
    """Number, state and speed (MB/s) of one NVLink."""
    number, state, speed = (entry.known(int, key) for key in ("link", "state", "speed_mbps"))
    return position if number is None else number, state, speed


def _lane(bridge: View, seen: GraphInputs) -> Lane:
    """The link of a bridge."""
    tone = seen.tones.of(PATH, Bridge(bridge, beside_gpu=False).subject)
    return Lane(_address(bridge), bridge.known(int, "current_link_width"), _newest(bridge), tone)


def _newest(port: View) -> int | None:
    speed = port.known(str, "max_link_speed")
    return None if speed is None else generation_of(speed)


def _own_lane(
    address: str, names: tuple[str, ...], gpu: GpuView, pci: View, seen: GraphInputs
) -> Lane:
    """The GPU's own link: the worse of what NVML and the PCI tree say of it."""
    widths = [pci.known(int, "current_link_width"), gpu.known(int, "pcie", "width")]
    generations = [_newest(pci), gpu.known(int, "pcie", "max_generation")]
    return Lane(
        address,
        min((w for w in widths if w is not None), default=None),
        min((g for g in generations if g is not None), default=None),
        UNKNOWN if pci.known(dict) is None else seen.tones.of(LANE, *names),
    )


def _nic(entry: View) -> GraphNic:
    return GraphNic(
        name=entry.known(str, "name") or "?",
        address=_address(entry),
        numa=_numa(entry),
        bridges=tuple(_address(b) for b in entry.known_items("bridges")),
        management=entry.known(bool, "switch_management"),
    )


def _nearest(
    path: tuple[str, ...] | None, numa: int | None, nics: tuple[GraphNic, ...]
) -> tuple[tuple[str, ...], str]:
    """The data NICs nearest to a GPU and the kind of path, in the words of `nvidia-smi topo -m`.

    PIX: below one switch; PXB: below the same port, over several bridges; NODE: on the same NUMA
    node; SYS: on another. There is none where that is unknown.
    """
    data = [nic for nic in nics if nic.management is False]
    shared = {nic: common(path or (), nic.bridges) for nic in data}
    most = max(shared.values(), default=0)
    if path and most:
        near = [nic for nic, count in shared.items() if count == most]
        over = max(len(path), *(len(nic.bridges) for nic in near)) - most
        return tuple(nic.name for nic in near), "PIX" if over <= 1 else "PXB"
    if not data or numa is None:
        return (), "?"
    same = tuple(nic.name for nic in data if nic.numa == numa)
    return (same, "NODE") if same else (tuple(nic.name for nic in data), "SYS")


def _pair(seen: GraphInputs, gpus: tuple[GraphGpu, ...], a: int, b: int) -> Pair:
    """The P2P of an ordered pair: NVn as `topo -m` says it, x where it is dead, -- unmeasured."""
    listed = seen.view.known_gpus
    ends = (gpus[a].links, gpus[b].links)
    counts = [links.up for links in ends if links.up is not None]
    peers = UNKNOWN
    if a < len(listed) and b < len(listed):
        peers = seen.tones.of(PEERS, pair_name(listed[a].subject, listed[b].subject))
    tone = worst(peers, *(links.tone for links in ends))
    if 0 in counts:
        return Pair("NV0", tone)
    if peers == BAD:
        return Pair("x", tone)
    return Pair("--" if tone == UNKNOWN or len(counts) < len(ends) else f"NV{min(counts)}", tone)


@dataclass(frozen=True, slots=True)
class MachineView:
    """The node, the names of its GPUs with a failed finding, the replica of each GPU index."""

    graph: Topology
    faulty: frozenset[str]
    replicas: dict[int | None, int]

    def tone(self, gpu: GraphGpu) -> str:
        """Return the tone of a GPU: bad with a failed finding, else that of its NVLinks."""
        return BAD if gpu.name in self.faulty else gpu.nvlink_tone


def machine_of(host: object) -> MachineView:
    """Return the machine of a HostRecord, as far as its state goes."""
    verdict = verdict_of(host)
    failed = [f for f in verdict.findings if f.status is Status.FAIL]
    return MachineView(
        graph=topology(read(host, "state"), read(host, "expectation"), verdict),
        faulty=frozenset(name for f in failed for name in (f.subject, *f.subjects)),
        replicas={
            gpu: replica
            for row in items(read(host, "layout"))
            for gpu in map(integer, items(read(row, "gpus")))
            if gpu is not None and (replica := integer(read(row, "replica"))) is not None
        },
    )
