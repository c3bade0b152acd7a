"""Observations with the NUMA maps of the scenarios: what the layout reads, and no more."""

from __future__ import annotations

from functools import cache
from typing import Any

from b200kit.node.lib import cpulist
from tests.lab.hardware import scenario

MAPS = {
    "two": "healthy",
    "four": "four-numa-nodes",
    "six": "six-numa-nodes-two-without-gpu",
    "eight": "eight-numa-nodes",
    "interleaved": "interleaved-cpus",
    "memory-less": "memory-less-node",
}


@cache
def _rendered(name: str) -> dict[str, Any]:
    return scenario.render(name, 2)


def state(name: str) -> dict[str, Any]:
    """An observation of a scenario's map, its CPUs as on the real node."""
    written = _rendered(MAPS[name])
    gpus = [{"index": g["index"], "uuid": g["uuid"], "pci_address": g["pci_address"],
             "device_id": "2901"} for g in written["gpus"]]  # fmt: skip
    devices = [{"address": g["pci_address"], "numa_node": g["numa_node"]} for g in written["gpus"]]
    numa = [{"id": n["id"], "cpus": n["cpus_written"], "memory_kib": n["memory_gib"] << 20}
            for n in written["numa_nodes"]]  # fmt: skip
    siblings = [pair for node in numa for pair in _siblings(node["cpus"])]
    return {
        "schema": "b200kit/node-state/1",
        "gpus": gpus,
        "pci": {"gpus": devices},
        "numa": numa,
        "cpus": {"siblings": siblings},
    }


def _siblings(cpus: str) -> list[str]:
    """Cores of a node: with two ranges, the second is the other thread of each core."""
    listed = cpulist.parse(cpus)
    half = len(listed) // 2
    if "-" not in cpus or "," not in cpus:
        return [str(cpu) for cpu in listed]
    return [f"{one},{two}" for one, two in zip(listed[:half], listed[half:], strict=True)]
