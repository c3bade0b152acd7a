"""Every GPU belongs to a NUMA node that has CPUs and memory; which node is read, never computed.

Two, four, six or eight nodes in any order occur in the field, and nodes without a GPU too.
"""

from __future__ import annotations

from collections.abc import Iterator

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
