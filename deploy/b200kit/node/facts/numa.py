"""What the kernel says of NUMA nodes, CPUs and modules."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib import cpulist
from b200kit.node.lib.readings import absent, attempt, is_digits, text

SYS = Path("/sys")
PROC = Path("/proc")
MODULES = (
    *("nvidia", "nvidia_uvm", "nvidia_peermem", "ib_umad", "mlx5_core", "mlx5_ib", "nouveau"),
)


def natural(name: str) -> tuple[str, int]:
    """Sort key that puts mlx5_10 after mlx5_9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def numa() -> list[dict[str, Any]]:
    """NUMA nodes with their CPUs (maybe none) and memory (maybe 0 KiB)."""
    root = SYS / "devices/system/node"
    nodes = [entry for entry in root.glob("node*") if is_digits(entry.name[4:])]
    return [
        {
            "id": int(node.name[4:]),
            "cpus": attempt(partial(text, node / "cpulist")),
            "memory_kib": attempt(partial(memory_kib, node / "meminfo")),
            "distances": attempt(partial(distances, node / "distance")),
        }
        for node in sorted(nodes, key=lambda n: natural(n.name))
    ]


def memory_kib(meminfo: Path) -> int:
    """MemTotal of a node's meminfo, "Node 0 MemTotal: 123 kB"."""
    for line in text(meminfo).splitlines():
        if "MemTotal:" in line:
            return int(line.split()[-2])
    raise ValueError(f"{meminfo} has no MemTotal")


def distances(path: Path) -> list[int]:
    """A node's distance to each node in their order, itself included: 10 (ACPI SLIT)."""
    return [int(word) for word in text(path).split()]


def cpus() -> dict[str, Any]:
    """Online CPUs as a list such as "0-3,8", each core's threads ("0,56"), and what they are."""
    return {
        "siblings": attempt(siblings),
        "sockets": attempt(sockets),
        "online": attempt(lambda: text(SYS / "devices/system/cpu/online")),
        "isolated": attempt(lambda: absent(SYS / "devices/system/cpu/isolated")),
        "model": attempt(cpu_model),
        "vendor": attempt(cpu_vendor),
        "hypervisor": attempt(hypervisor),
    }


def siblings() -> list[str]:
    """CPU list of every physical core, once each, by first CPU."""
    lists = (SYS / "devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return sorted({text(path) for path in lists}, key=lambda cpus: int(re.split("[-,]", cpus)[0]))


def sockets() -> list[str]:
    """CPU list of every physical socket, by first CPU; one file of each is read."""
    root, found = SYS / "devices/system/cpu", list[str]()
    left = {*cpulist.parse(text(root / "online"))}
    while left:
        found.append(text(root / f"cpu{min(left)}/topology/core_siblings_list"))
        left -= {min(left), *cpulist.parse(found[-1])}
    return found


def cpu_model() -> str:
    """The first CPU's model name."""
    for line in text(PROC / "cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    raise ValueError("/proc/cpuinfo names no model")


def cpu_vendor() -> str | None:
    """The first CPU's vendor, "GenuineIntel" or "AuthenticAMD"; null where CPUs name none."""
    for line in text(PROC / "cpuinfo").splitlines():
        if line.startswith("vendor_id"):
            return line.split(":", 1)[1].strip()
    return None


def hypervisor() -> bool | None:
    """Whether the first CPU says that it runs below a hypervisor; null where it names no flags.

    CPUID leaf 1, bit 31 of ECX, which no processor sets itself (Linux, asm/cpufeatures.h).
    """
    for line in text(PROC / "cpuinfo").splitlines():
        if line.startswith("flags"):
            return "hypervisor" in line.split(":", 1)[1].split()
    return None


def modules() -> dict[str, Any]:
    """Version (or true) of each kernel module that matters; null when it is not loaded."""
    listing = PROC / "modules"  # not there on a kernel without loadable modules
    lines = text(listing).splitlines() if listing.exists() else []
    loaded = {line.split()[0] for line in lines if line}
    return {name: attempt(partial(module, name, loaded)) for name in MODULES}


def module(name: str, loaded: set[str]) -> str | bool | None:
    """A module's version, true when it has none, null when it is neither loaded nor built in."""
    entry = SYS / "module" / name
    state = entry / "initstate"  # built-in modules have a directory without it
    live = text(state) == "live" if state.exists() else entry.is_dir()
    if not live and name not in loaded:
        return None
    version = entry / "version"
    return text(version) if version.exists() else True
