"""What the kernel says of PCI: GPUs, the bridges above them, InfiniBand devices and their ports.

With P2P Request or Completion Redirect on in a bridge, two GPUs (or a GPU and a NIC) below it reach
each other by way of the root port only: slower, or not at all (NCCL's user guide, troubleshooting,
"PCI Access Control Services").
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts.numa import natural
from b200kit.node.lib.readings import absent, attempt, is_unmeasured, text

SYS = Path("/sys")
NVIDIA = "10de"
GPU_CLASSES = ("0x0300", "0x0302")
"""PCI classes of a GPU: VGA and 3D controller; NVSwitch bridges and audio functions are neither."""
SWITCH_MARK = b"SW_MNG"
"""Mark in a device's vital product data that makes it an NVSwitch management function
(NVIDIA/gpu-driver-container, _assert_nvlink5_system). Some virtual machines have no such file."""
SM_DISABLED = 1 << 10
"""isSMdisabled in a port's capability mask (Linux, IB_PORT_SM_DISABLED)."""
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
LINKS = ("current", "max")
UNKNOWN_WIDTH = 255
"""Lanes where the kernel does not know (PCIE_LNK_WIDTH_UNKNOWN); 0 is a link that is down."""


def identifier(path: Path) -> str:
    """A sysfs id such as "0x10de" without its prefix."""
    return text(path).removeprefix("0x")


def gpus() -> list[dict[str, Any]]:
    """Every NVIDIA GPU on the PCI bus, by address, whether or not the driver sees it."""
    return Bus().gpus()


class Bus:
    """The bus, of which devices and the bridges above them are found anew once they change."""

    def __init__(self) -> None:
        self._listed: list[str] = []
        self._above: dict[Path, Any] = {}
        self._nics: dict[tuple[Path, Path], dict[str, Any]] = {}

    def gpus(self) -> list[dict[str, Any]]:
        """As `gpus`."""
        folder = SYS / "bus/pci/devices"
        listed = sorted(os.listdir(folder))
        if listed != self._listed:
            found = [folder / name for name in listed if is_gpu(folder / name)]
            self._above = {device: attempt(partial(above, device)) for device in found}
            self._listed = listed
        paths = self._above
        known = bridges(path for path in paths.values() if isinstance(path, list))
        return [
            gpu(device)
            | {"bridges": path if isinstance(path, dict) else [known[at] for at in path]}
            for device, path in paths.items()
        ]

    def nics(self) -> list[dict[str, Any]]:
        """InfiniBand devices. Vital product data, slow to read, is read once, and side by side."""
        entries = [(entry, entry.resolve()) for entry in infiniband()]
        known = {at: self._nics[at] for at in entries if at in self._nics}
        new = [at for at in entries if at not in known]
        if new:
            with ThreadPoolExecutor(len(new)) as pool:
                known |= zip(new, pool.map(nic, [entry for entry, _ in new]), strict=True)
        self._nics = {
            at: found for at, found in known.items() if not any(map(is_unmeasured, found.values()))
        }
        return [known[at] | {"ports": attempt(partial(ports, at[0]))} for at in entries]


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
        "payload_bytes": attempt(lambda: payload(device / "config")),
        "driver": attempt(lambda: driver(device)),
        "iommu": attempt(lambda: iommu(device)),
        "aer": aer(device),
    }


def driver(device: Path) -> str | None:
    """Name of the kernel driver bound to a device, null when there is none."""
    link = device / "driver"
    return Path(os.readlink(link)).name if link.is_symlink() else None


def iommu(device: Path) -> str | None:
    """Type of the domain that translates a device's memory accesses; null without an IOMMU."""
    group = device / "iommu_group"
    return text(group / "type") if group.exists() else None


def aer(device: Path) -> dict[str, Any]:
    """Errors by PCIe Advanced Error Reporting since boot; null where the kernel counts none."""
    kinds = ("correctable", "nonfatal", "fatal")
    totals = {kind: attempt(partial(errors, device / f"aer_dev_{kind}")) for kind in kinds}
    unsupported = attempt(partial(errors, device / "aer_dev_nonfatal", "UnsupReq "))
    return {**totals, "unsupported_requests": unsupported}


def errors(path: Path, line: str = "TOTAL_ERR_") -> int | None:
    """A count of such a file, "TOTAL_ERR_COR 3" (Linux, sysfs-bus-pci-devices-aer)."""
    content = absent(path)
    if content is None:
        return None
    for found in content.splitlines():
        if found.startswith(line):
            return int(found.split()[1])
    raise ValueError(f"{path.name} has no line {line.strip()}")


def above(device: Path) -> list[Path]:
    """Folders of the PCI bridges above a device, root port first.

    sysfs nests a device in its bridge: /sys/devices/pci0000:88/0000:88:01.0/.../0000:8f:00.0.
    """
    parents = device.resolve(strict=True).parents
    return [folder for folder in reversed(parents) if ADDRESS.fullmatch(folder.name)]


def bridges(paths: Iterable[list[Path]]) -> dict[Path, dict[str, Any]]:
    """Every bridge on these paths, read once although GPUs share them."""
    return {folder: bridge(folder) for folder in dict.fromkeys(at for path in paths for at in path)}


def bridge(folder: Path) -> dict[str, Any]:
    """One bridge: its link, and whether it sends peer-to-peer traffic to the root.

    Root and downstream ports report the link below them, a switch's upstream port of that above.
    """
    return {
        "address": folder.name,
        **{f"{which}_link_speed": attempt(partial(speed, folder, which)) for which in LINKS},
        **{f"{which}_link_width": attempt(partial(width, folder, which)) for which in LINKS},
        "acs": attempt(lambda: redirects(folder / "config")),
    }


def speed(folder: Path, which: str) -> str | None:
    """Speed such as "32.0 GT/s PCIe"; null for a bridge with no link, or an unknown one."""
    value = absent(folder / f"{which}_link_speed")
    return None if value is None or value.startswith("Unknown") else value


def width(folder: Path, which: str) -> int | None:
    """Lanes; null for a bridge with no link, or an unknown one."""
    value = absent(folder / f"{which}_link_width")
    return None if value is None or int(value) == UNKNOWN_WIDTH else int(value)


def nics() -> list[dict[str, Any]]:
    """InfiniBand devices with their ports."""
    return Bus().nics()


def infiniband() -> list[Path]:
    """Their entries in sysfs, by name."""
    root = SYS / "class/infiniband"
    return sorted(root.iterdir(), key=lambda d: natural(d.name)) if root.is_dir() else []


def nic(entry: Path) -> dict[str, Any]:
    """What stays of one InfiniBand device; `switch_management` marks those of the NVSwitches."""
    device = entry / "device"
    return {
        "name": entry.name,
        "address": attempt(lambda: device.resolve(strict=True).name),
        "numa_node": attempt(lambda: int(text(device / "numa_node"))),
        "switch_management": attempt(lambda: SWITCH_MARK in vital_product_data(device / "vpd")),
        "vital_product_data": (device / "vpd").exists(),
        "bridges": attempt(lambda: [folder.name for folder in above(device)]),
    }


def vital_product_data(path: Path) -> bytes:
    """The device's vital product data, empty where the platform exposes none."""
    return path.read_bytes() if path.exists() else b""


def ports(entry: Path) -> list[dict[str, Any]]:
    """A device's ports by number."""
    return [
        port(folder) for folder in sorted((entry / "ports").iterdir(), key=lambda p: int(p.name))
    ]


def port(folder: Path) -> dict[str, Any]:
    """One port: "4: ACTIVE" is ACTIVE, "400 Gb/sec (4X NDR)" is 400."""
    return {
        "number": int(folder.name),
        "state": attempt(lambda: text(folder / "state").split(":", 1)[1].strip()),
        "rate_gbps": attempt(lambda: float(text(folder / "rate").split()[0])),
        "link_layer": attempt(lambda: text(folder / "link_layer")),
        "sm_disabled": attempt(lambda: bool(int(text(folder / "cap_mask"), 16) & SM_DISABLED)),
    }


STATUS, HAS_LIST, LIST = 0x06, 0x10, 0x34
"""Offsets of the status register and of the pointer to the first capability, and its bit."""
EXPRESS_ID, DEVICE_CONTROL = 0x10, 8
"""The PCI Express capability, and its device control: bits 5-7 are the payload size in use."""
CONVENTIONAL_BYTES = 256
"""Configuration space without extended capabilities, which start right after it."""
EXTENDED_BYTES = 4096
NO_ANSWER = 0xFFFFFFFF
ACS_ID = 0x000D
CONTROL = 6
"""Offset of the control register in the capability (PCI_ACS_CTRL of linux/pci_regs.h)."""
REDIRECT = 0x4 | 0x8
"""P2P Request Redirect and P2P Completion Redirect."""


def redirects(config: Path) -> bool | None:
    """Whether a bridge redirects peers to the root; null without ACS; OSError when not readable."""
    descriptor = os.open(config, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size <= CONVENTIONAL_BYTES:
            return None
        at = capability(descriptor)
        if at is None:
            return None
        (control,) = struct.unpack("<H", read(descriptor, at + CONTROL, 2))
        return bool(control & REDIRECT)
    finally:
        os.close(descriptor)


def payload(config: Path) -> int | None:
    """Bytes a packet of a device may carry; null without PCI Express; OSError when not readable."""
    descriptor = os.open(config, os.O_RDONLY)
    try:
        if not read(descriptor, STATUS, 1)[0] & HAS_LIST:
            return None
        (at,), seen = read(descriptor, LIST, 1), set[int]()
        while (at := at & 0xFC) and at not in seen:
            seen.add(at)
            name, following = read(descriptor, at, 2)
            if name == EXPRESS_ID:
                return 128 << (read(descriptor, at + DEVICE_CONTROL, 1)[0] >> 5 & 7)
            at = following
        return None
    finally:
        os.close(descriptor)


def capability(descriptor: int) -> int | None:
    """Where the ACS capability lies: a list of headers, id in bits 0-15, next one in 20-31."""
    offset, seen = CONVENTIONAL_BYTES, set[int]()
    while CONVENTIONAL_BYTES <= offset < EXTENDED_BYTES and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack("<I", read(descriptor, offset, 4))
        if header == NO_ANSWER:
            raise OSError("the device does not answer: its configuration space is all ones")
        if header & 0xFFFF == ACS_ID:
            return offset
        offset = header >> 20 & 0xFFC
    return None


def read(descriptor: int, offset: int, size: int) -> bytes:
    """Bytes of configuration space; only root gets more than the first 64."""
    content = os.pread(descriptor, size, offset)
    if len(content) < size:
        raise PermissionError(f"configuration space ends before byte {offset:#x}: it needs root")
    return content
