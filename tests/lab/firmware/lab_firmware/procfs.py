"""/proc as the simulated node shows it: driver files, writable sysctls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tree import Tree

#: Kernel settings a deployment may write; in a container /proc/sys is read-only, so each is a file
#: of its own.
SYSCTLS = (
    "fs/file-max",
    "kernel/numa_balancing",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/pid_max",
    "kernel/threads-max",
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/somaxconn",
    "net/core/wmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_max_syn_backlog",
    "vm/max_map_count",
    "vm/nr_hugepages",
    "vm/overcommit_memory",
    "vm/swappiness",
    "vm/zone_reclaim_mode",
)

#: Some of the driver's options with their defaults (open-gpu-kernel-modules, nv-reg.h).
DRIVER_DEFAULTS = {
    "EnableStreamMemOPs": "0",
    "NvLinkDisable": "0",
    "RmProfilingAdminOnly": "1",
    "DmaRemapPeerMmio": "1",
    "EnablePCIERelaxedOrderingMode": "0",
    "RmNvlinkBandwidthLinkCount": "0",
    "ImexChannelCount": "2048",
}

#: Options that the driver shows under another name than modprobe gives them.
OTHER_NAMES = {"RestrictProfilingToAdminUsers": "RmProfilingAdminOnly"}


def params(parameters: Mapping[str, str]) -> dict[str, str]:
    """The driver's options as it runs with them: its defaults, and what modprobe.d says."""
    given = {key.removeprefix("NVreg_"): value for key, value in parameters.items()}
    given = {OTHER_NAMES.get(key, key): value for key, value in given.items()}
    return DRIVER_DEFAULTS | given


def driver_tree(
    scenario: Mapping[str, Any], version: str | None, parameters: Mapping[str, str]
) -> Tree:
    """/proc/driver: the nvidia driver's files when it is loaded, else nothing."""
    if not version:
        return {}
    files: Tree = {
        "nvidia/version": (
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  "
            "Release Build  (b200kit lab, simulation)\nGCC version:  gcc version 12.2.0"
        ),
        "nvidia/params": "\n".join(f"{key}: {value}" for key, value in params(parameters).items()),
    }
    for gpu in scenario["gpus"]:
        at = f"nvidia/gpus/{gpu['pci_address']}/information"
        files[at] = f"Model: \t\t {gpu['name']}\nDevice Minor: \t {gpu['index']}"
    return files
