"""Every GPU belongs to a NUMA node that has CPUs and memory; which node is read, never computed.

Two, four, six or eight nodes in any order occur in the field, and nodes without a GPU too.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.lib import cpulist
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread, View

UNKNOWN_NODE = -1
NEEDED = {"cpus": "CPUs", "memory_kib": "memory"}
USABLE = rule("a NUMA node with CPUs and memory", "replicas are bound to the node of their GPUs")


@check("numa.gpu")
def gpu_nodes(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The kernel names a usable node for every GPU on the PCI bus."""
    del expect
    gpus = state.items("pci", "gpus")
    # Any node that seems not to exist may be one whose number was not read.
    nodes = {node.number("id"): node for node in state.items("numa")}
    found = [finding for gpu in gpus for finding in of_gpu(state, gpu, nodes)]
    if gpus and not found:
        used = {gpu.number("numa_node") for gpu in gpus}
        found = [passed(f"{len(gpus)} GPUs on NUMA nodes {sorted(map(str, used))}", USABLE)]
    yield from found


def of_gpu(state: StateView, gpu: View, nodes: dict[int, View]) -> Iterator[Finding]:
    """The findings of one GPU's node."""
    address = str(gpu.reading("address"))
    known = state.gpu_at(address)
    name = known.subject if known else f"the GPU at {address}"
    yield from within(name, known.part if known else "", gpu_node(name, known, gpu, nodes))


def gpu_node(
    name: str, known: GpuView | None, gpu: View, nodes: dict[int, View]
) -> Iterator[Finding]:
    """A finding when one GPU's node is unknown, missing, or has nothing to run on."""
    number = gpu.number("numa_node")
    if number == UNKNOWN_NODE and len(nodes) == 1:
        return
    if number == UNKNOWN_NODE:
        raise Unread("the NUMA node", f"numa_node is -1 and there are {len(nodes)} nodes")
    if number not in nodes:
        summary = f"{name} is on NUMA node {number}, which does not exist"
        yield failed(summary, f"nodes {sorted(nodes)}", USABLE, Action.NONE, known, subject=name)
        return
    for key in NEEDED:
        yield from within("", "", usable(nodes[number], key, f"{name} is on NUMA node {number}"))


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
