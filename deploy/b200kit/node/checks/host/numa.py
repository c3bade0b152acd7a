"""Every GPU belongs to a NUMA node that has CPUs and memory; which node is read, never computed.

Two, four, six or eight nodes in any order occur in the field, and nodes without a GPU too.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.lib import cpulist
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured, View

UNKNOWN_NODE = -1
USABLE = rule("a NUMA node with CPUs and memory", "replicas are bound to the node of their GPUs")


@check("numa.gpu")
def gpu_nodes(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel names a usable node for every GPU on the PCI bus."""
    del expect
    gpus, nodes = state.items("pci", "gpus"), state.items("numa")
    for what, reading in (("the PCI bus", gpus), ("the NUMA nodes", nodes)):
        if isinstance(reading, Unmeasured):
            yield unread(what, reading)
    if isinstance(gpus, Unmeasured) or isinstance(nodes, Unmeasured):
        return
    by_id: dict[int, View] = {}
    for node in nodes:
        number = node.number("id")
        if isinstance(number, Unmeasured):
            # Any node that seems not to exist may be this one.
            yield unread("a NUMA node's number", number)
            return
        by_id[number] = node
    found = [finding for gpu in gpus for finding in gpu_node(state, gpu, by_id)]
    if gpus and not found:
        used = {gpu.number("numa_node") for gpu in gpus}
        found = [passed(f"{len(gpus)} GPUs on NUMA nodes {sorted(map(str, used))}", USABLE)]
    yield from found


def gpu_node(state: StateView, gpu: View, nodes: dict[int, View]) -> Iterator[Finding]:
    """A finding when one GPU's node is unknown, missing, or has nothing to run on."""
    address = str(gpu.at("address").raw())
    known = state.gpu_at(address)
    name = known.subject if known else f"the GPU at {address}"
    number = gpu.number("numa_node")
    if isinstance(number, Unmeasured):
        yield unread("the NUMA node", number, known, subject=name)
    elif number == UNKNOWN_NODE and len(nodes) == 1:
        return
    elif number == UNKNOWN_NODE:
        why = Unmeasured(f"numa_node is -1 and there are {len(nodes)} nodes")
        yield unread("the NUMA node", why, known, subject=name)
    elif number not in nodes:
        summary = f"{name} is on NUMA node {number}, which does not exist"
        yield failed(summary, f"nodes {sorted(nodes)}", USABLE, Action.NONE, known, subject=name)
    else:
        yield from usable(nodes[number], name, number)


def usable(node: View, name: str, number: int) -> Iterator[Finding]:
    """A finding when a node has no CPUs or no memory."""
    cpus, memory = node.text("cpus"), node.number("memory_kib")
    for what, reading in (("CPUs", cpus), ("memory", memory)):
        if isinstance(reading, Unmeasured):
            yield unread(f"{what} of NUMA node {number}", reading)
    if isinstance(cpus, str) and not has_cpus(cpus):
        summary = f"{name} is on NUMA node {number}, which has no CPUs"
        yield failed(summary, f"cpus {cpus!r}", USABLE, Action.NONE)
    if memory == 0:
        summary = f"{name} is on NUMA node {number}, which has no memory"
        yield failed(summary, "memory_kib 0", USABLE, Action.NONE)


def has_cpus(text: str) -> bool:
    """Whether a CPU list names any CPU; a malformed one does not."""
    try:
        return bool(cpulist.parse(text))
    except ValueError:
        return False
