"""/sys/devices/system/node, and cores: what numactl -H, lscpu and systemd read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import cpulist
from .tree import Tree

LOCAL, REMOTE = 10, 21
KIB_PER_GIB = 1024 * 1024
#: Share of memory a freshly booted node has free.
FREE = 0.97
#: Rows of the kernel's per-node meminfo that are zero here; vLLM's CPU build reads the file ones.
ZERO = ("Active(file)", "Inactive(file)", "FilePages", "Dirty", "Writeback", "SReclaimable")


def distances(scenario: Mapping[str, Any]) -> list[list[int]]:
    """The node distance matrix: the scenario's, else 10 to itself and 21 to any other."""
    count = len(scenario["numa_nodes"])
    return scenario.get("numa_distance") or [
        [LOCAL if a == b else REMOTE for b in range(count)] for a in range(count)
    ]


def _meminfo(node: Mapping[str, Any]) -> str:
    total = node["memory_gib"] * KIB_PER_GIB
    free = int(total * FREE)
    rows = {"MemTotal": total, "MemFree": free, "MemUsed": total - free} | dict.fromkeys(ZERO, 0)
    lines = [f"Node {node['id']} {key}: {kib:>14} kB" for key, kib in rows.items()]
    return "\n".join([*lines, f"Node {node['id']} HugePages_Total:     0"])


def tree(scenario: Mapping[str, Any]) -> Tree:
    """The folder's files, one `nodeN` for each NUMA node."""
    nodes = scenario["numa_nodes"]
    everyone = cpulist.ids(node["id"] for node in nodes)
    with_memory = cpulist.ids(node["id"] for node in nodes if node["memory_gib"])
    files: Tree = {
        "online": everyone,
        "possible": everyone,
        "has_cpu": cpulist.ids(node["id"] for node in nodes if node["cpus"]),
        "has_memory": with_memory,
        "has_normal_memory": with_memory,
    }
    width = 1 + max((cpu for node in nodes for cpu in cpulist.parse(node["cpus"])), default=0)
    for node, row in zip(nodes, distances(scenario), strict=True):
        at = f"node{node['id']}"
        files |= {
            f"{at}/cpulist": node["cpus"],
            f"{at}/cpumap": cpulist.mask(cpulist.parse(node["cpus"]), width),
            f"{at}/distance": " ".join(map(str, row)),
            f"{at}/meminfo": _meminfo(node),
        }
    return files


def lone_cores(scenario: Mapping[str, Any]) -> Tree:
    """Files below /sys/devices/system/cpu that make every CPU of the node a core of its own.

    The machine's own siblings may lie in two of the simulated NUMA nodes, which no hardware has.
    Half of the nodes are of the first socket, the others of the second.
    """
    nodes = [cpulist.parse(node["cpus"]) for node in scenario["numa_nodes"]]
    half = (len(nodes) + 1) // 2
    sockets = [[cpu for node in of for cpu in node] for of in (nodes[:half], nodes[half:])]
    alone, together = ("thread_siblings", "core_cpus"), ("core_siblings", "package_cpus")
    return {
        f"cpu{cpu}/topology/{kind}{form}": text
        for socket in sockets
        for cpu in sorted(socket)
        for kinds, mine in ((alone, [cpu]), (together, sorted(socket)))
        for kind in kinds
        for form, text in (("_list", cpulist.ids(mine)), ("", cpulist.mask(mine, max(mine) + 1)))
    }
