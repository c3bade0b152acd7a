"""Who pins a replica, and to what. Pure.

A replica whose GPUs hang on one NUMA node is pinned by systemd: every process of the unit gets the
CPUs and the memory of that node. One that spans nodes is bound by the engine, each worker to the
node of its own GPU, and systemd leaves it alone: vLLM refuses to bind where its CPUs were narrowed
(RuntimeError of utils/numa_utils.py, 0.33.0). Never both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.node.lib import cpulist
from b200kit.node.placement.layout import Replica, survey

SYSTEMD, ENGINE = "systemd", "engine"
BIND, LOCAL = "bind", "local"


@dataclass(frozen=True)
class Pinning:
    """What pins a replica: *by* systemd or the engine, to which *cpus* (a CPU list) and *nodes*.

    *gpu_nodes* is the NUMA node of each GPU in the replica's own order; only the engine needs it.
    """

    by: str
    cpus: str
    nodes: tuple[int, ...]
    policy: str
    gpu_nodes: tuple[int, ...] = ()

    @property
    def numa_bind(self) -> tuple[int, ...] | None:
        """The nodes that the engine is configured to bind to; None where systemd pins."""
        return self.gpu_nodes if self.by == ENGINE else None

    def expected(self) -> dict[str, Any]:
        """What b200kit/node/checks/serving/placement.py judges a running unit by."""
        return {
            "by": self.by,
            "cpus": self.cpus,
            "nodes": cpulist.format(self.nodes),
            "policy": self.policy,
        }


def of(replica: Replica, policy: str, state: Mapping[str, Any]) -> Pinning:
    """How a replica is pinned on the node that was observed; *policy* is the inventory's."""
    nodes = replica.numa_nodes
    if policy != BIND or not replica.spans:
        return Pinning(SYSTEMD, replica.cpus, nodes, policy)
    machine = survey(state)
    # numactl refuses a node without memory, so a GPU there goes with the node its memory is from.
    home = {gpu.index: machine.memory_of(gpu.numa_node) for gpu in machine.gpus}
    cpus = [cpu for node in nodes for core in machine.cores.get(node, []) for cpu in core]
    return Pinning(
        ENGINE, cpulist.format(cpus), nodes, BIND, tuple(home[gpu] for gpu in replica.gpus)
    )
