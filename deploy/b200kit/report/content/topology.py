"""A node's GPUs and connections from its observation, compared with the expected ones. Pure.

Pure, and tolerant of any JSON: what was not read is unknown, never good. Where NVML is silent, the
PCI tree says which GPUs there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from b200kit.node.checks.nvlink.fabric import STATES
from b200kit.node.checks.pcie.bridges import generation as generation_of
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import GpuView, StateView, Unmeasured, View
from b200kit.report.content.expected_graph import (
    FABRIC_KEYS,
    ExpectedGraph,
    expected_graph,
    known,
)
from b200kit.report.content.graph import (
    BAD,
    GOOD,
    UNKNOWN,
    Fabric,
    Gpu,
    Lane,
    Links,
    Nic,
    NumaNode,
    Pair,
    Topology,
    worst,
)
from b200kit.report.document import clean

KINDS = ("nvlink", "read", "write")
"""Kinds of P2P access that serving needs; atomics and prop are reported only."""

MOST_GPUS = 16
"""Of more, the further ones have no pairs: the graph has one for each ordered pair."""


def topology(state: object, expectation: object) -> Topology:
    """The graph of a node; `why` says why there is no GPU in it."""
    view, expected = StateView(plausible(state)), expected_graph(expectation)
    nics = tuple(_nic(entry) for entry in view.items("pci", "nics") or [])
    listed = view.gpus()
    gpus = tuple(_gpus(view, expected, nics))
    nics_read = view.items("pci", "nics")
    return Topology(
        gpus=gpus,
        numa=tuple(_numa_nodes(view, gpus)),
        nics=nics,
        nics_why=nics_read.reason if isinstance(nics_read, Unmeasured) else "",
        pairs={
            (a, b): _pair(view, expected, gpus, a, b)
            for a, b in permutations(range(min(len(gpus), MOST_GPUS)), 2)
        },
        expected=expected.gpus,
        why=listed.reason if isinstance(listed, Unmeasured) else "",
    )


def judged(reading: int | None, least: int | None) -> str:
    """The tone of a reading that must reach `least`."""
    if reading is None or least is None:
        return UNKNOWN
    return GOOD if reading >= least else BAD


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many bridges two paths from the root share."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared


def _gpus(view: StateView, expected: ExpectedGraph, nics: tuple[Nic, ...]) -> Iterator[Gpu]:
    """The GPUs of NVML in its order, then those that only the PCI tree shows."""
    on_pci = {str(e.at("address").raw()).lower(): e for e in view.items("pci", "gpus") or []}
    listed = list(view.gpus() or [])
    addresses = _addresses(listed, list(on_pci))
    for gpu, address in zip(listed, addresses, strict=True):
        pci = on_pci.pop(address, View(Unmeasured("the GPU is not in the PCI tree")))
        yield _gpu(gpu.position, address, gpu, pci, view, expected, nics)
    # Of those without an address, each is one of these: counting both would count it twice.
    for address, pci in list(on_pci.items())[addresses.count("?") :]:
        silent = GpuView({"unmeasured": "NVML does not list it"}, 0)
        yield _gpu(None, address, silent, pci, view, expected, nics)


def _addresses(listed: Sequence[GpuView], on_pci: Sequence[str]) -> list[str]:
    """The PCI address of each GPU of NVML, "?" where it is not known.

    One that fell off the bus tells none: by elimination it is the one that nobody else is, and of
    several NVML has the order of the bus.
    """
    told = [str(gpu.text("pci_address") or "?").lower() for gpu in listed]
    left = sorted(address for address in on_pci if address not in told)
    if len(left) != told.count("?"):
        return told
    rest = iter(left)
    return [next(rest) if address == "?" else address for address in told]


def _gpu(
    position: int | None,
    address: str,
    gpu: GpuView,
    pci: View,
    view: StateView,
    expected: ExpectedGraph,
    nics: tuple[Nic, ...],
) -> Gpu:
    bridges = pci.items("bridges")
    path = None if isinstance(bridges, Unmeasured) else tuple(_address(b) for b in bridges)
    numa = _numa(pci, single=len(view.items("numa") or []) == 1)
    lanes = [_lane(_address(b), b, expected) for b in bridges or []]
    nearest, how = _nearest(path, numa, nics)
    return Gpu(
        index=known(gpu.number("index")),
        position=position,
        module=known(gpu.number("module_id")),
        address=address,
        numa=numa,
        links=_links(gpu, expected),
        fabric=_fabric(gpu, expected),
        lanes=(*lanes, _own_lane(address, gpu, pci, expected)),
        bridges=path,
        nics=nearest,
        nic_path=how,
    )


def _numa_nodes(view: StateView, gpus: tuple[Gpu, ...]) -> Iterator[NumaNode]:
    """Every NUMA node, with or without GPUs, then one for GPUs of no known node."""
    ids: set[int | None] = set()
    for entry in view.items("numa") or []:
        number, kib = known(entry.number("id")), known(entry.number("memory_kib"))
        if number is None or number in ids:
            continue
        ids.add(number)
        yield NumaNode(
            id=number,
            cpus=clean(str(entry.text("cpus"))) or "none",
            memory="memory unmeasured" if kib is None else f"{kib / 1048576:.0f} GiB",
            gpus=tuple(gpu for gpu in gpus if gpu.numa == number),
        )
    if lost := tuple(gpu for gpu in gpus if gpu.numa not in ids):
        yield NumaNode(None, "unmeasured", "", lost)


def _fabric(gpu: GpuView, expected: ExpectedGraph) -> Fabric:
    """What a GPU says of its place in the fabric."""
    read = {key: gpu.number("fabric", key) for key in FABRIC_KEYS}
    tones = {
        key: UNKNOWN
        if isinstance(value, Unmeasured) or expected.fabric[key] is None
        else _same(value, expected.fabric[key])
        for key, value in read.items()
    }
    state = read["state"]
    return Fabric(
        state=clean(str(state))
        if isinstance(state, Unmeasured)
        else STATES.get(state, f"state {state}"),
        faults=tuple(
            f"{key.replace('_', ' ')} {value}"
            for key, value in read.items()
            if key != "state" and tones[key] == BAD
        ),
        tone=worst(*tones.values()),
    )


def _same(reading: int | None, expected: int | None) -> str:
    return GOOD if reading == expected else BAD


def _address(entry: View) -> str:
    """The address of a bridge, which a GPU lists with its link and a NIC by address alone."""
    value = entry.raw() if isinstance(entry.raw(), str) else entry.at("address").raw()
    return value.lower() if isinstance(value, str) else "?"


def _numa(device: View, single: bool = False) -> int | None:
    """The NUMA node of a device; -1 means none is named, as on a machine with one node."""
    node = known(device.number("numa_node"))
    return node if node is None or node >= 0 else (0 if single else None)


def _links(gpu: GpuView, expected: ExpectedGraph) -> Links:
    entries = gpu.items("links")
    if isinstance(entries, Unmeasured):
        return Links(None, expected.links, (), (), (), UNKNOWN)
    found = [_link(entry, position) for position, entry in enumerate(entries)]
    read = [state for _, state, _ in found if state is not None]
    down = tuple(link for link, state, _ in found if state not in (None, 1))
    floor = expected.speed_floor or 0
    slow = tuple(
        link for link, state, speed in found if state == 1 and speed is not None and speed < floor
    )
    up = read.count(1) if read or not found else None  # a list without a link is a count of none
    whole = all(
        state is not None and (state != 1 or speed is not None) for _, state, speed in found
    )
    sure = whole and None not in (up, expected.links, expected.speed_floor)
    tone = BAD if down or slow else _same(up, expected.links) if sure else UNKNOWN
    states = tuple(
        "unknown" if state is None else "up" if state == 1 else "down" for _, state, _ in found
    )
    return Links(up, expected.links, states, down, slow, tone)


def _link(entry: View, position: int) -> tuple[int, int | None, int | None]:
    """Number, state and speed (MB/s) of one NVLink."""
    number, state, speed = (known(entry.number(key)) for key in ("link", "state", "speed_mbps"))
    return position if number is None else number, state, speed


def _lane(address: str, port: View, expected: ExpectedGraph) -> Lane:
    width = known(port.number("current_link_width"))
    speed = port.text("max_link_speed")
    generation = None if isinstance(speed, Unmeasured) else generation_of(speed)
    tone = worst(judged(width, expected.width), judged(generation, expected.generation))
    return Lane(address, width, generation, tone)


def _own_lane(address: str, gpu: GpuView, pci: View, expected: ExpectedGraph) -> Lane:
    """The GPU's own link: the worse of what NVML and the PCI tree say of it."""
    link = _lane(address, pci, expected)
    widths = [link.width, known(gpu.number("pcie", "width"))]
    generations = [link.generation, known(gpu.number("pcie", "max_generation"))]
    width = min((w for w in widths if w is not None), default=None)
    generation = min((g for g in generations if g is not None), default=None)
    tone = worst(judged(width, expected.width), judged(generation, expected.generation))
    return Lane(address, width, generation, tone)


def _nic(entry: View) -> Nic:
    management = entry.flag("switch_management")
    return Nic(
        name=str(entry.text("name") or "?"),
        address=str(entry.text("address") or "?").lower(),
        numa=_numa(entry),
        bridges=tuple(_address(b) for b in entry.items("bridges") or []),
        management=None if isinstance(management, Unmeasured) else management,
    )


def _nearest(
    path: tuple[str, ...] | None, numa: int | None, nics: tuple[Nic, ...]
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


def _pair(view: StateView, expected: ExpectedGraph, gpus: tuple[Gpu, ...], a: int, b: int) -> Pair:
    """The P2P of an ordered pair: NVn as `topo -m` says it, x where it is dead, -- unmeasured."""
    listed = len(view.gpus() or [])
    inside = a < listed and b < listed
    statuses = [known(view.number("p2p", kind, a, b)) if inside else None for kind in KINDS]
    ends = (gpus[a].links, gpus[b].links)
    counts = [links.up for links in ends if links.up is not None]
    label, tone = "--", UNKNOWN
    if 0 in counts:
        label, tone = "NV0", BAD
    elif any(status is not None and status != (expected.p2p or 0) for status in statuses):
        label, tone = "x", BAD
    elif len(counts) == len(ends):
        measured = None not in (*statuses, expected.p2p)
        tone = worst(*(links.tone for links in ends), *([] if measured else [UNKNOWN]))
        label = label if tone == UNKNOWN else f"NV{min(counts)}"
    return Pair(label, tone)
