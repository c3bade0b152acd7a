"""The kernel's map of CPUs contradicts itself nowhere: replicas are pinned by it.

Every online CPU belongs to one NUMA node and to one core, and the readings of a GPU or a network
device agree with its node. A map that contradicts itself comes from firmware or a hypervisor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.lib import cpulist
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

ONCE = rule("each online CPU in one place", "two replicas would share a CPU, or one get none")
OWN = rule("the CPUs of its own NUMA node", "local_cpulist and cpulist of sysfs name the same CPUs")
SHARED = rule("one NUMA node", "devices under one PCIe switch hang on one root port")
UNKNOWN_NODE = -1


class _Unread(Exception):
    """Something of the map cannot be read; it carries what and why."""

    def __init__(self, what: str, reason: Unmeasured) -> None:
        super().__init__(what)
        self.what, self.reason = what, reason


def _cpus(view: View, what: str, *keys: str) -> frozenset[int]:
    text = view.text(*keys)
    if isinstance(text, Unmeasured):
        raise _Unread(what, text)
    try:
        return frozenset(cpulist.parse(text))
    except ValueError as error:
        raise _Unread(what, Unmeasured(str(error))) from None


def _entries(state: StateView, what: str, *keys: str) -> list[View]:
    found = state.items(*keys)
    if isinstance(found, Unmeasured):
        raise _Unread(what, found)
    return found


@check("numa.cpus")
def cpus(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every online CPU is of one NUMA node and of one core."""
    del expect
    try:
        online = _cpus(state, "the online CPUs", "cpus", "online")
        listed = _entries(state, "the NUMA nodes", "numa")
        nodes = [_cpus(node, "the CPUs of a NUMA node", "cpus") for node in listed]
        siblings = _entries(state, "the threads of each core", "cpus", "siblings")
        cores = [_cpus(core, "the threads of a core") for core in siblings]
    except _Unread as error:
        yield unread(error.what, error.reason)
        return
    found = [*_odd("NUMA node", nodes, online), *_odd("core", cores, online)]
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


@check("numa.local")
def local(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """A GPU's local CPUs are those of its NUMA node, and a NIC beside it is of that node."""
    del expect
    try:
        nodes = {_number(n): n for n in _entries(state, "the NUMA nodes", "numa")}
        gpus = _entries(state, "the PCI bus", "pci", "gpus")
        nics = _entries(state, "the NICs", "pci", "nics")
        named = [(_name(nic), nic) for nic in nics]
        # Those of a NIC are asked for by each GPU.
        above = cache(lambda device, name: frozenset(_bridges(device, name)))
        found = [f for gpu in gpus for f in _of_gpu(state, gpu, nodes, named, above)]
    except _Unread as error:
        yield unread(error.what, error.reason)
        return
    yield from found or [passed(f"{len(gpus)} GPUs have the CPUs of their NUMA nodes", OWN)]


def _of_gpu(
    state: StateView,
    gpu: View,
    nodes: dict[int, View],
    nics: Iterable[tuple[str, View]],
    above: Callable[[View, str], frozenset[str]],
) -> Iterator[Finding]:
    address = gpu.text("address") or gpu.path
    known = state.gpu_at(address)
    name, number = known.subject if known else f"the GPU at {address}", gpu.number("numa_node")
    if isinstance(number, Unmeasured):
        raise _Unread(f"the NUMA node of {name}", number)
    if number == UNKNOWN_NODE or number not in nodes:
        return  # numa.gpu says so
    own = _cpus(nodes[number], f"CPUs of NUMA node {number}", "cpus")
    near = _cpus(gpu, f"the local CPUs of {name}", "local_cpus")
    if own != near:
        read = f"local CPUs {cpulist.format(near)}, CPUs of the node {cpulist.format(own)}"
        summary = f"{name} is of NUMA node {number}, and its local CPUs are not that node's"
        yield failed(summary, read, OWN, Action.NONE, known)
    own_bridges = above(gpu, name)
    for label, nic in nics:
        where = nic.number("numa_node")
        if isinstance(where, Unmeasured):
            raise _Unread(f"the NUMA node of {label}", where)
        if own_bridges & above(nic, label) and where not in (number, UNKNOWN_NODE):
            beside = f"{label} under the same PCIe switch is of node {where}"
            summary = f"{name} is of NUMA node {number}, and {beside}"
            yield failed(summary, f"{label} numa_node {where}", SHARED, Action.NONE, known)


def _number(node: View) -> int:
    number = node.number("id")
    if isinstance(number, Unmeasured):
        raise _Unread("a NUMA node's number", number)  # it may be that of any GPU
    return number


def _name(nic: View) -> str:
    for key in ("name", "address"):
        reading = nic.text(key)
        if isinstance(reading, Unmeasured):
            raise _Unread(f"the {key} of a NIC", reading)
    return str(nic.text("name"))


def _bridges(device: View, name: str) -> Iterator[str]:
    """Addresses of the PCI bridges above a device, whether listed with their links or alone."""
    entries = device.items("bridges")
    if isinstance(entries, Unmeasured):
        raise _Unread(f"the PCI bridges above {name}", entries)
    for entry in entries:
        address = entry.text() if isinstance(entry.raw(), str) else entry.text("address")
        if isinstance(address, Unmeasured):
            raise _Unread(f"a PCI bridge above {name}", address)
        yield address
