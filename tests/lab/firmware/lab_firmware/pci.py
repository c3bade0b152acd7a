"""/sys/bus/pci of the simulated node: the GPUs, the network functions, the bridges above them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from . import cpulist
from .tree import Link, Tree

NVIDIA, MELLANOX, BROADCOM = "10de", "15b3", "1000"
CLASS_3D, CLASS_INFINIBAND, CLASS_BRIDGE = 0x030200, 0x020700, 0x060400
#: A PCIe Gen5 switch, made up for every bridge.
PEX89104 = "c030"
CAPABILITY_AER, CAPABILITY_ACS = 0x0001, 0x000D
#: Source validation, request and completion redirect, upstream forwarding: what Linux turns on.
ACS_REDIRECT = 0x1D
#: ConnectX-7: both the compute NICs and, on HGX B200, the NVSwitches' management bridge.
CONNECTX7 = "1021"
SPEED_OF_GENERATION = {3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}

#: Product data of a function: PCI VPD "read-only" tag with a vendor key; NVIDIA looks for SW_MNG in
#: it.
SWITCH_MANAGEMENT_VPD = b"\x82\x16\x00Nvidia ConnectX-7 LPF\x00\x90\x0b\x00V0\x08SW_MNG\x00\x00\x78"


#: That of a card that is no switch's.
NETWORK_VPD = b"\x82\x16\x00NVIDIA ConnectX-7 card\x90\x07\x00PN\x04MCX7\x78"


def config_space(vendor: str, device: str, pci_class: int, subsystem: tuple[str, str]) -> bytes:
    """The first 64 bytes of a function's configuration space (type 0), as lspci reads them."""
    header = bytearray(64)
    struct.pack_into("<HHHH", header, 0, int(vendor, 16), int(device, 16), 0x0547, 0x0010)
    struct.pack_into("<I", header, 8, pci_class << 8)
    struct.pack_into("<HH", header, 44, int(subsystem[0], 16), int(subsystem[1], 16))
    return bytes(header)


def bridge_config(acs: bool) -> bytes:
    """A bridge's whole configuration space (type 1): error reporting, then access control."""
    space = bytearray(config_space(BROADCOM, PEX89104, CLASS_BRIDGE, ("0000", "0000")))
    space[14] = 1
    space += bytes(4096 - len(space))
    aer_at, acs_at = 0x100, 0x148
    struct.pack_into("<I", space, aer_at, CAPABILITY_AER | 1 << 16 | acs_at << 20)
    struct.pack_into("<I", space, acs_at, CAPABILITY_ACS | 1 << 16)
    struct.pack_into("<HH", space, acs_at + 4, ACS_REDIRECT, ACS_REDIRECT if acs else 0)
    return bytes(space)


def folder(place: Mapping[str, Any]) -> str:
    """A device's folder, each bridge's within the one above it, as below /sys/devices.

    That file system cannot be written to; the simulation has the folders in /sys/bus/pci/tree.
    """
    path = [*place.get("bridges", []), place["pci_address"]]
    return "/".join(["tree", f"pci{path[0][:7]}", *path])


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


def _link(pcie: Mapping[str, int]) -> Tree:
    return {
        "current_link_speed": _speed(pcie["generation"]),
        "current_link_width": str(pcie["width"]),
        "max_link_speed": _speed(pcie["max_generation"]),
        "max_link_width": str(pcie["max_width"]),
    }


def _driver(name: str) -> Link:
    return Link(f"/sys/bus/pci/drivers/{name}")


def _errors(counts: Mapping[str, int]) -> Tree:
    ends = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}
    return {
        f"aer_dev_{kind}": f"Undefined {counts[kind]}\nTOTAL_ERR_{end} {counts[kind]}"
        for kind, end in ends.items()
    }


def gpu(scenario: Mapping[str, Any], place: Mapping[str, Any], driver: str | None) -> Tree:
    """One GPU's device folder; `driver` is the module bound to it."""
    ids = (NVIDIA, place["device_id"], NVIDIA, place["subsystem_id"])
    files = _function(scenario, place, CLASS_3D, ids)
    files |= _link(place["pcie"]) | _errors(place["aer"])
    if place["iommu"] != "none":
        files["iommu_group/type"] = place["iommu"]
    return files | ({"driver": _driver(driver)} if driver else {})


def nic(scenario: Mapping[str, Any], place: Mapping[str, Any]) -> Tree:
    """One network function's device folder."""
    ids = (MELLANOX, place.get("device_id", CONNECTX7), MELLANOX, "0023")
    files = _function(scenario, place, CLASS_INFINIBAND, ids) | {"driver": _driver("mlx5_core")}
    files |= _link({"generation": 5, "max_generation": 5, "width": 16, "max_width": 16})
    vpd = SWITCH_MANAGEMENT_VPD if place.get("switch_management", False) else NETWORK_VPD
    return files | ({"vpd": vpd} if place.get("vpd", True) else {})


def bridge(said: Mapping[str, Any]) -> Tree:
    """One bridge's device folder."""
    return {
        "vendor": f"0x{BROADCOM}",
        "device": f"0x{PEX89104}",
        "class": f"0x{CLASS_BRIDGE:06x}",
        "config": bridge_config(said["acs"]),
        **_link(said["pcie"]),
    }


def _bridges(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Folder of every bridge, by address."""
    above = {}
    for place in (*scenario["gpus"], *scenario["nics"]):
        path = place.get("bridges", [])
        for depth, address in enumerate(path):
            above[address] = folder({"pci_address": address, "bridges": path[:depth]})
    return above


def tree(scenario: Mapping[str, Any], gpu_driver: str | None) -> Tree:
    """The files of /sys/bus/pci: the devices' folders, links to them, and `drivers/NAME`."""
    devices = {folder(place): gpu(scenario, place, gpu_driver) for place in scenario["gpus"]}
    devices |= {folder(place): nic(scenario, place) for place in scenario["nics"]}
    bridges = _bridges(scenario).items()
    devices |= {where: bridge(scenario["bridges"][address]) for address, where in bridges}
    files: Tree = {"drivers/mlx5_core/module": Link("/sys/module/mlx5_core")}
    if gpu_driver:
        files[f"drivers/{gpu_driver}/module"] = Link(f"/sys/module/{gpu_driver}")
    for where, device in devices.items():
        files[f"devices/{where.rsplit('/', 1)[1]}"] = Link(f"../{where}")
        files |= {f"{where}/{name}": content for name, content in device.items()}
    return files
