"""Where a replica runs and where its memory is: the kernel's word, past the toolkit's reading."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.lib import cpulist
from tests.lab.hardware.scenario import render
from tests.lab.vm.machine import NUMA_NODES
from tests.vm.driving import Machine

REPLICAS = (0, 1)
CGROUP = "/sys/fs/cgroup$(systemctl show -P ControlGroup vllm@{}.service)"
_GPUS = render("healthy", NUMA_NODES)["gpus"]


def main_pid(vm: Machine, replica: int) -> int:
    """The process systemd started."""
    return int(vm.on(f"systemctl show -P MainPID vllm@{replica}.service"))


def pids(vm: Machine, replica: int) -> list[int]:
    """Every process of the replica."""
    return [int(pid) for pid in vm.on(f"cat {CGROUP.format(replica)}/cgroup.procs").split()]


def gpus(vm: Machine, replica: int) -> list[str]:
    """The GPUs it was given, by UUID."""
    environment = f"tr '\\0' '\\n' </proc/{main_pid(vm, replica)}/environ"
    return vm.on(f"{environment} | sed -n 's/^CUDA_VISIBLE_DEVICES=//p'").split(",")


def kernels_node(vm: Machine, uuid: str) -> int:
    """The NUMA node of a GPU's PCI device, as the kernel has it from the firmware's tables."""
    address = next(gpu["pci_address"] for gpu in _GPUS if gpu["uuid"] == uuid)
    return int(vm.on(f"cat /sys/bus/pci/devices/{address}/numa_node"))


def near(vm: Machine, node: int) -> set[int]:
    """The processors of a NUMA node."""
    return set(cpulist.parse(vm.on(f"cat /sys/devices/system/node/node{node}/cpulist")))


def allowed(vm: Machine, replica: int) -> list[set[int]]:
    """The processors that each thread of the replica may run on."""
    each = f"for p in $(cat {CGROUP.format(replica)}/cgroup.procs)"
    lines = vm.on(f"{each}; do cat /proc/$p/task/*/status; done").splitlines()
    message = [line.split()[1] for line in lines if "Cpus_allowed_list" in line]
    return [set(cpulist.parse(text)) for text in message]


def policies(vm: Machine, pid: int) -> set[str]:
    """The memory policies of a process's mappings, such as ``bind:0``."""
    return {words[1] for words in _maps(vm, pid)}


def memory(vm: Machine, pid: int) -> set[str]:
    """The nodes (``N0``) its own memory is on.

    What is mapped from a file shares the page cache, which may be anywhere.
    """
    own = (
        words
        for words in _maps(vm, pid)
        if any(word.startswith("anon=") for word in words)
        and not any(word.startswith("file=") for word in words)
    )
    return {word.partition("=")[0] for words in own for word in words if word[0] == "N"}


def _maps(vm: Machine, pid: int) -> Iterator[list[str]]:
    return (line.split() for line in vm.on(f"cat /proc/{pid}/numa_maps").splitlines())
