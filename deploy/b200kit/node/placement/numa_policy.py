"""Who pins a replica, and to what. Pure.

All processes of a replica have the CPUs and the NUMA nodes that the layout prints, and no others.
A replica whose GPUs hang on one NUMA node gets them by systemd's CPUAffinity= and NUMAMask=. In one
that spans nodes the engine binds each worker to the node of its own GPU, and sets the affinity of
its processes itself; there AllowedCPUs= holds them all within what is printed. Explicit nodes and
CPUs are given to it: vLLM finds them out alone only where nobody narrowed its CPUs (RuntimeError of
utils/numa_utils.py, 0.33.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from b200kit.node.lib import cpulist
from b200kit.node.placement.layout import Replica
from b200kit.node.placement.machine import survey

SYSTEMD, ENGINE = "systemd", "engine"
BIND, LOCAL = "bind", "local"


@dataclass(frozen=True)
class Pinning:
    """What pins a replica: *by* systemd or the engine, to which *cpus* (a CPU list) and *nodes*.

    *gpu_nodes* and *gpu_cpus* are those of each GPU in the replica's own order; only the engine
    needs them.
    """

    by: str
    cpus: str
    nodes: tuple[int, ...]
    policy: str
    gpu_nodes: tuple[int, ...] = ()
    gpu_cpus: tuple[str, ...] = ()

    def expected(self) -> dict[str, Any]:
        """What b200kit/node/checks/serving/placement.py judges a running unit by."""
        return {
            "by": self.by,
            "cpus": self.cpus,
            "nodes": cpulist.format(self.nodes),
            "policy": self.policy,
        }


def of(replica: Replica, policy: str, state: Mapping[str, Any], engine_binds: bool) -> Pinning:
    """How a replica is pinned on the node that was observed; *policy* is the inventory's.

    The engine binds by node, so it cannot where a GPU's node has no memory (numactl refuses it) or
    none of the replica's CPUs; there systemd pins the whole replica.
    """
    by_systemd = Pinning(SYSTEMD, replica.cpus, replica.numa_nodes, policy)
    if policy != BIND or not replica.spans or not engine_binds:
        return by_systemd
    machine = survey(state)
    home = machine.node_of()
    nodes = tuple(home[gpu] for gpu in replica.gpus)
    mine = {*cpulist.parse(replica.cpus)}
    cpus = tuple(cpulist.format(mine & machine.cpus([node])) for node in nodes)
    if machine.bare & {*nodes} or not all(cpus):
        return by_systemd
    return Pinning(ENGINE, replica.cpus, replica.numa_nodes, BIND, nodes, cpus)
