"""Every GPU belongs to a NUMA node that has CPUs and memory; which node is read, never computed.

Two, four, six or eight nodes in any order occur in the field, and nodes without a GPU too. The
kernel's map of CPUs contradicts itself nowhere: every online CPU belongs to one NUMA node and to
one core, and the readings of a GPU or a network device agree with its node. A map that contradicts
itself comes from firmware or a hypervisor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import inf

from b200kit.node.checks.findings import each, failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.checks.pcie.bus import BusGpu, bus_gpus
from b200kit.node.lib import cpulist
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unread, View

UNKNOWN_NODE = -1
NEEDED = {"cpus": "CPUs", "memory_kib": "memory"}
EVEN = rule("alike", "the firmware leaves out a memory module that fails its test, without a word")
_ALIKE = 0.04
"""Share by which nodes may differ: a module of 16 is 6 %, what the kernel keeps below 3 %. Ours."""
USABLE = rule("a NUMA node with CPUs and memory", "replicas are bound to the node of their GPUs")
ONCE = rule("each online CPU in one place", "two replicas would share a CPU, or one get none")
OWN = rule("the CPUs of its own NUMA node", "local_cpulist and cpulist of sysfs name the same CPUs")
SHARED = rule("one NUMA node", "devices under one PCIe switch hang on one root port")
SCHEDULED = rule("no isolated CPU", "the scheduler balances no load there (kernel-parameters.txt)")
ONE_SOCKET = rule("one socket, itself the nearest", "memory of another socket is slower")
NOT_APART = "take isolcpus= off the kernel command line and reboot the node"


@check("numa.gpu")
def gpu_nodes(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel names a usable node for every GPU on the PCI bus."""
    del expect
    gpus = bus_gpus(state)
    # Any node that seems not to exist may be one whose number was not read.
    nodes = {node.number("id"): node for node in state.items("numa")}
    known = [number for gpu in gpus if (number := gpu.entry.known(int, "numa_node")) is not None]
    # Where there is one node, the kernel may name none.
    used = cpulist.format({*nodes} if UNKNOWN_NODE in known else known)

    def check_gpu(gpu: BusGpu) -> Iterator[Finding]:
        return gpu_node(gpu, nodes)

    yield from each(gpus, check_gpu, passed(f"{len(gpus)} GPUs on NUMA nodes {used}", USABLE))
    yield from uneven(nodes)


def uneven(nodes: dict[int, View]) -> Iterator[Finding]:
    """A note where some nodes with CPUs have less memory than another."""
    sizes = {
        number: kib for number, node in nodes.items()
        if (kib := node.known(int, "memory_kib")) and has_cpus(node.known(str, "cpus") or "")
    }  # fmt: skip
    most = max(sizes.values(), default=0)
    if less := {number: kib for number, kib in sizes.items() if kib < (1 - _ALIKE) * most}:
        there = ", ".join(f"node {number} {kib >> 20} GiB" for number, kib in less.items())
        summary = f"NUMA nodes have unlike memory: {there}, the largest {most >> 20} GiB"
        yield noted(summary, None, there, EVEN)


def gpu_node(gpu: BusGpu, nodes: dict[int, View]) -> Iterator[Finding]:
    """A finding when one GPU's node is unknown, missing, or has nothing to run on."""
    name, known, number = gpu.subject, gpu.known, gpu.entry.number("numa_node")
    if number == UNKNOWN_NODE and len(nodes) == 1:
        return
    if number == UNKNOWN_NODE:
        raise Unread("the NUMA node", f"numa_node is -1 and there are {len(nodes)} nodes")
    if number not in nodes:
        summary = f"{name} is on NUMA node {number}, which does not exist"
        yield failed(summary, f"nodes {sorted(nodes)}", USABLE, Action.NONE, known, subject=name)
        return
    for key in NEEDED:
        yield from within(usable(nodes[number], key, f"{name} is on NUMA node {number}"))


def usable(node: View, key: str, where: str) -> Iterator[Finding]:
    """A finding when a node has none of what is needed: CPUs, memory."""
    there = has_cpus(node.text(key)) if key == "cpus" else node.number(key)
    if not there:
        summary = f"{where}, which has no {NEEDED[key]}"
        yield failed(summary, f"{key} {node.reading(key)!r}", USABLE, Action.NONE)


def has_cpus(text: str) -> bool:
    """Whether a CPU list names any CPU; a malformed one does not."""
    try:
        return bool(cpulist.parse(text))
    except ValueError:
        return False


def _cpus(view: View) -> frozenset[int]:
    text = view.text()
    try:
        return frozenset(cpulist.parse(text))
    except ValueError as error:
        raise Unread(view.path, str(error)) from None


@check("numa.cpus")
def cpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every online CPU is of one NUMA node and of one core, and every core of one node."""
    del expect
    online = _cpus(state.at("cpus", "online"))
    nodes = [_cpus(node.at("cpus")) for node in state.items("numa")]
    cores = [_cpus(core) for core in state.items("cpus", "siblings")]
    found = [*_odd("NUMA node", nodes, online), *_odd("core", cores, online)]
    # Replicas are given whole cores, each of one node.
    for core in cores:
        if sum(bool(core & node) for node in nodes) > 1:
            summary = f"the core of CPUs {cpulist.format(core)} is of more than one NUMA node"
            found.append(failed(summary, summary, ONCE, Action.NONE))
    yield from found or [passed(f"{len(online)} CPUs, {len(nodes)} NUMA nodes, {len(cores)} cores")]


def _odd(what: str, groups: list[frozenset[int]], online: frozenset[int]) -> Iterator[Finding]:
    """Findings where groups of CPUs are no partition of those online."""
    times = Counter(cpu for group in groups for cpu in group)
    for which, where in (
        ({cpu for cpu, count in times.items() if count > 1}, f"of more than one {what}"),
        (online - times.keys(), f"of no {what}"),
        (times.keys() - online, f"of a {what} and not online"),
    ):
        if which:
            summary = f"CPUs {cpulist.format(which)} are {where}"
            yield failed(summary, summary, ONCE, Action.NONE)


@check("numa.sockets")
def sockets(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every NUMA node is of one socket, and nearest to itself, then to those of its socket.

    A guest's sockets and distances are what its hypervisor makes up.
    """
    del expect
    nodes = state.items("numa")
    older = state.is_missing("cpus", "sockets") or any(n.is_missing("distances") for n in nodes)
    if older or state.known(bool, "cpus", "hypervisor"):
        yield passed("sockets are not judged: of a guest, or not in this document")
        return
    packages = [_cpus(package) for package in state.items("cpus", "sockets")]
    of = [{n for n, cpus in enumerate(packages) if cpus & _cpus(node.at("cpus"))} for node in nodes]
    found = [finding for i, node in enumerate(nodes) for finding in _socket(node, i, of)]
    yield from found or [passed(f"{len(nodes)} NUMA nodes, {len(packages)} sockets", ONE_SOCKET)]


def _socket(node: View, own: int, of: list[set[int]]) -> Iterator[Finding]:
    """Findings of one NUMA node; `of` has the sockets of each, in the order of its distances."""
    name, row = f"NUMA node {node.number('id')}", node.get(list, "distances")
    if len(row) != len(of):
        raise Unread(f"the distances of {name}", f"{len(row)} for {len(of)} nodes")
    if len(of[own]) > 1:
        summary = f"{name} has CPUs of {len(of[own])} sockets: its memory is spread over them"
        yield failed(summary, f"sockets {sorted(of[own])}", ONE_SOCKET, Action.NONE)
    near = [row[n] for n, home in enumerate(of) if n != own and home and home == of[own]]
    far = [row[n] for n, home in enumerate(of) if home and not home & of[own]]
    if row[own] >= min([*near, *far], default=inf) or max(near, default=0) > min(far, default=inf):
        summary = f"{name} is no nearer to itself, or to its socket, than to another"
        yield failed(summary, f"distances {row}", ONE_SOCKET, Action.NONE)


@check("numa.isolated")
def isolated(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel's scheduler has every online CPU: replicas, gateway and client share them all."""
    del expect
    # Older documents do not have it.
    named = state.at("cpus", "isolated")
    none = state.is_missing("cpus", "isolated") or named.is_null()
    apart = frozenset() if none else _cpus(named) & _cpus(state.at("cpus", "online"))
    if apart:
        text = cpulist.format(apart)
        summary = f"CPUs {text} are isolated: all threads put there stay on the first of them"
        yield failed(summary, f"isolated {text}", SCHEDULED, Action.NONE, remedy=NOT_APART)
    else:
        yield passed("no CPU is isolated", SCHEDULED)


@check("numa.local")
def local(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A GPU's local CPUs are those of its NUMA node, and a NIC beside it is of that node."""
    del expect
    nodes = {node.number("id"): node for node in state.items("numa")}  # each may be any GPU's
    gpus = state.items("pci", "gpus")
    nics = [(_name(nic), nic) for nic in state.items("pci", "nics")]
    # Those of a NIC are asked for by each GPU.
    above = cache(lambda device: frozenset(_bridges(device)))
    found = [finding for gpu in gpus for finding in _of_gpu(state, gpu, nodes, nics, above)]
    yield from found or [passed(f"{len(gpus)} GPUs have the CPUs of their NUMA nodes", OWN)]


def _of_gpu(
    state: StateView,
    gpu: View,
    nodes: dict[int, View],
    nics: Iterable[tuple[str, View]],
    above: Callable[[View], frozenset[str]],
) -> Iterator[Finding]:
    address = gpu.known(str, "address") or gpu.path
    known = state.gpu_at(address)
    name, number = known.subject if known else f"the GPU at {address}", gpu.number("numa_node")
    if number == UNKNOWN_NODE or number not in nodes:
        return  # numa.gpu says so
    own, near = _cpus(nodes[number].at("cpus")), _cpus(gpu.at("local_cpus"))
    if own != near:
        read = f"local CPUs {cpulist.format(near)}, CPUs of the node {cpulist.format(own)}"
        summary = f"{name} is of NUMA node {number}, and its local CPUs are not that node's"
        yield failed(summary, read, OWN, Action.NONE, known)
    own_bridges = above(gpu)
    for label, nic in nics:
        where = nic.number("numa_node")
        if own_bridges & above(nic) and where not in (number, UNKNOWN_NODE):
            beside = f"{label} under the same PCIe switch is of node {where}"
            summary = f"{name} is of NUMA node {number}, and {beside}"
            yield failed(summary, f"{label} numa_node {where}", SHARED, Action.NONE, known)


def _name(nic: View) -> str:
    nic.text("address")  # one without an address is none to go by
    return nic.text("name")


def _bridges(device: View) -> Iterator[str]:
    """Addresses of the PCI bridges above a device, whether listed with their links or alone."""
    for entry in device.items("bridges"):
        yield entry.text() if isinstance(entry.value, str) else entry.text("address")
