"""Another NUMA map put into a state, whole: CPUs, cores, GPUs, NICs and the switches they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.node.lib import cpulist

MEMORY_KIB = 264000000


def apply(state: dict[str, Any], cpus: Sequence[str], gpus: Sequence[int]) -> None:
    """CPUs of each NUMA node and the node of each GPU; every GPU has a switch of its own."""
    nodes = [
        {"id": number, "cpus": text, "memory_kib": MEMORY_KIB} for number, text in enumerate(cpus)
    ]
    put_nodes(state, nodes)
    for number, (gpu, node) in enumerate(zip(state["pci"]["gpus"], gpus, strict=True)):
        gpu |= {"numa_node": node, "local_cpus": cpus[node]}
        for depth, bridge in enumerate(gpu["bridges"]):
            bridge["address"] = f"0000:{0x80 + number:02x}:{depth:02x}.0"
    data = [nic for nic in state["pci"]["nics"] if not nic["switch_management"]]
    for number, nic in enumerate(data):
        gpu = state["pci"]["gpus"][number % len(gpus)]
        above = [bridge["address"] for bridge in gpu["bridges"][:-1]]
        nic |= {"numa_node": gpu["numa_node"], "bridges": above}


def put_nodes(state: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    """Other NUMA nodes, whose CPUs are those online, each a core of its own, and their GPUs'."""
    cpus = {node["id"]: node["cpus"] for node in nodes}
    online = sorted(cpu for text in cpus.values() for cpu in cpulist.parse(text))
    state["cpus"] |= {"online": cpulist.format(online), "siblings": [str(cpu) for cpu in online]}
    state["numa"] = nodes
    for gpu in state["pci"]["gpus"]:
        gpu["local_cpus"] = cpus.get(gpu["numa_node"], gpu["local_cpus"])
