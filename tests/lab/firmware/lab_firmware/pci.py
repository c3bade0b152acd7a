"""/sys/bus/pci of the simulated node: the GPUs and the network functions."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from . import cpulist
from .tree import Link, Tree

NVIDIA, MELLANOX = "10de", "15b3"
CLASS_3D, CLASS_INFINIBAND = 0x030200, 0x020700
#: ConnectX-7: both the compute NICs and, on HGX B200, the NVSwitches' management bridge.
CONNECTX7 = "1021"
SPEED_OF_GENERATION = {3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}

#: Product data of a function: PCI VPD "read-only" tag with a vendor key; NVIDIA looks for SW_MNG in
#: it.
SWITCH_MANAGEMENT_VPD = b"\x82\x16\x00Nvidia ConnectX-7 LPF\x00\x90\x0b\x00V0\x08SW_MNG\x00\x00\x78"


def config_space(vendor: str, device: str, pci_class: int, subsystem: tuple[str, str]) -> bytes:
    """The first 64 bytes of a function's configuration space (type 0), as lspci reads them."""
    header = bytearray(64)
    struct.pack_into("<HHHH", header, 0, int(vendor, 16), int(device, 16), 0x0547, 0x0010)
    struct.pack_into("<I", header, 8, pci_class << 8)
    struct.pack_into("<HH", header, 44, int(subsystem[0], 16), int(subsystem[1], 16))
    return bytes(header)


def _speed(generation: int) -> str:
    return f"{SPEED_OF_GENERATION[generation]} GT/s PCIe"


def _local_cpus(scenario: Mapping[str, Any], numa_node: int) -> str:
    lists = {node["id"]: node["cpus"] for node in scenario["numa_nodes"]}
    every = cpulist.ids(cpu for text in lists.values() for cpu in cpulist.parse(text))
    return str(lists.get(numa_node, every))


def _function(
    scenario: Mapping[str, Any], place: Mapping[str, Any], pci_class: int, ids: tuple[str, ...]
) -> Tree:
    vendor, device, subvendor, subdevice = ids
    return {
        "vendor": f"0x{vendor}",
        "device": f"0x{device}",
        "subsystem_vendor": f"0x{subvendor}",
        "subsystem_device": f"0x{subdevice}",
        "class": f"0x{pci_class:06x}",
        "revision": "0x00",
        "irq": "0",
        "enable": "1",
        "resource": "\n".join(["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7),
        "config": config_space(vendor, device, pci_class, (subvendor, subdevice)),
        "numa_node": str(place["numa_node"]),
        "local_cpulist": _local_cpus(scenario, place["numa_node"]),
    }


def gpu(scenario: Mapping[str, Any], place: Mapping[str, Any], driver: str | None) -> Tree:
    """One GPU's device folder; `driver` is the module bound to it."""
    link = place["pcie"]
    ids = (NVIDIA, place["device_id"], NVIDIA, place["subsystem_id"])
    files = _function(scenario, place, CLASS_3D, ids) | {
        "current_link_speed": _speed(link["generation"]),
        "current_link_width": str(link["width"]),
        "max_link_speed": _speed(link["max_generation"]),
        "max_link_width": str(link["max_width"]),
    }
    return files | ({"driver": Link(f"../../drivers/{driver}")} if driver else {})


def nic(scenario: Mapping[str, Any], place: Mapping[str, Any]) -> Tree:
    """One network function's device folder."""
    ids = (MELLANOX, place.get("device_id", CONNECTX7), MELLANOX, "0023")
    files = _function(scenario, place, CLASS_INFINIBAND, ids) | {
        "current_link_speed": _speed(5),
        "current_link_width": "16",
        "max_link_speed": _speed(5),
        "max_link_width": "16",
        "driver": Link("../../drivers/mlx5_core"),
    }
    management = place.get("switch_management", False)
    return files | ({"vpd": SWITCH_MANAGEMENT_VPD} if management else {})


def tree(scenario: Mapping[str, Any], gpu_driver: str | None) -> Tree:
    """The files of /sys/bus/pci: `devices/ADDRESS/...` and `drivers/NAME`."""
    devices = {place["pci_address"]: gpu(scenario, place, gpu_driver) for place in scenario["gpus"]}
    devices |= {place["pci_address"]: nic(scenario, place) for place in scenario["nics"]}
    files: Tree = {"drivers/mlx5_core/module": Link("/sys/module/mlx5_core")}
    if gpu_driver:
        files[f"drivers/{gpu_driver}/module"] = Link(f"/sys/module/{gpu_driver}")
    for address, device in devices.items():
        files |= {f"devices/{address}/{name}": content for name, content in device.items()}
    return files
