"""What the kernel says of PCI, NUMA nodes, CPUs, InfiniBand devices and modules."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from deploy.node.readings import attempt, text

SYS = Path("/sys")
PROC = Path("/proc")
NVIDIA = "10de"
GPU_CLASSES = ("0x0300", "0x0302")
"""PCI classes of a GPU: VGA and 3D controller; NVSwitch bridges and audio functions are neither."""
MODULES = ("nvidia", "nvidia_uvm", "ib_umad", "mlx5_core", "mlx5_ib", "nouveau")
SWITCH_MARK = b"SW_MNG"
"""Mark in a device's vital product data that makes it an NVSwitch management function
(NVIDIA/gpu-driver-container, _assert_nvlink5_system). Some virtual machines have no such file."""


def identifier(path: Path) -> str:
    """A sysfs id such as "0x10de" without its prefix."""
    return text(path).removeprefix("0x")


def gpus() -> list[dict[str, Any]]:
    """Every NVIDIA GPU on the PCI bus, by address, whether or not the driver sees it."""
    devices = sorted((SYS / "bus/pci/devices").iterdir())
    return [gpu(device) for device in devices if is_gpu(device)]


def is_gpu(device: Path) -> bool:
    """Whether a PCI device is an NVIDIA GPU; one that vanishes meanwhile is not."""
    try:
        return identifier(device / "vendor") == NVIDIA and text(device / "class")[:6] in GPU_CLASSES
    except OSError:
        return False


def gpu(device: Path) -> dict[str, Any]:
    """One GPU's PCI facts."""

    def read(name: str, convert: Callable[[str], Any] = str) -> Any:
        return attempt(lambda: convert(text(device / name)))

    return {
        "address": device.name,
        "vendor": attempt(lambda: identifier(device / "vendor")),
        "device": attempt(lambda: identifier(device / "device")),
        "numa_node": read("numa_node", int),
        "local_cpus": read("local_cpulist"),
        "current_link_speed": read("current_link_speed"),
        "current_link_width": read("current_link_width", int),
        "max_link_speed": read("max_link_speed"),
        "max_link_width": read("max_link_width", int),
    }


def nics() -> list[dict[str, Any]]:
    """InfiniBand devices, read side by side because vital product data is slow to read."""
    root = SYS / "class/infiniband"
    devices = sorted(root.iterdir(), key=lambda d: natural(d.name)) if root.is_dir() else []
    if not devices:
        return []
    with ThreadPoolExecutor(len(devices)) as pool:
        return list(pool.map(nic, devices))


def natural(name: str) -> tuple[str, int]:
    """Sort key that puts mlx5_10 after mlx5_9."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def nic(entry: Path) -> dict[str, Any]:
    """One InfiniBand device; `switch_management` marks those that belong to the NVSwitches."""
    device = entry / "device"
    return {
        "name": entry.name,
        "address": attempt(lambda: device.resolve(strict=True).name),
        "numa_node": attempt(lambda: int(text(device / "numa_node"))),
        "switch_management": attempt(lambda: SWITCH_MARK in vital_product_data(device / "vpd")),
    }


def vital_product_data(path: Path) -> bytes:
    """The device's vital product data, empty where the platform exposes none."""
    return path.read_bytes() if path.exists() else b""


def numa() -> list[dict[str, Any]]:
    """NUMA nodes with their CPUs (maybe none) and memory (maybe 0 KiB)."""
    root = SYS / "devices/system/node"
    nodes = [entry for entry in root.iterdir() if entry.name[4:].isdigit() and "node" in entry.name]
    return [
        {
            "id": int(node.name[4:]),
            "cpus": attempt(partial(text, node / "cpulist")),
            "memory_kib": attempt(partial(memory_kib, node / "meminfo")),
        }
        for node in sorted(nodes, key=lambda n: natural(n.name))
    ]


def memory_kib(meminfo: Path) -> int:
    """MemTotal of a node's meminfo, "Node 0 MemTotal: 123 kB"."""
    for line in text(meminfo).splitlines():
        if "MemTotal:" in line:
            return int(line.split()[-2])
    raise ValueError(f"{meminfo} has no MemTotal")


def cpus() -> dict[str, Any]:
    """Online CPUs as a list such as "0-3,8", the model name, and each core's threads ("0,56")."""
    return {
        "siblings": attempt(siblings),
        "online": attempt(lambda: text(SYS / "devices/system/cpu/online")),
        "model": attempt(cpu_model),
    }


def siblings() -> list[str]:
    """CPU list of every physical core, once each, by first CPU."""
    lists = (SYS / "devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return sorted({text(path) for path in lists}, key=lambda cpus: int(re.split("[-,]", cpus)[0]))


def cpu_model() -> str:
    """The first CPU's model name."""
    for line in text(PROC / "cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    raise ValueError("/proc/cpuinfo names no model")


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
