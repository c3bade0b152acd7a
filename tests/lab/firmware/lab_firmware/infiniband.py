"""What the InfiniBand drivers add once loaded: class folders and user MAD devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .tree import Link, Tree

#: What a port says unless the scenario does.
PORT = {"state": "ACTIVE", "rate_gbps": 400, "link_layer": "InfiniBand"}
#: A channel adapter's capability mask, and its bit that forbids a subnet manager (isSMdisabled).
CAPABILITIES, SM_DISABLED = 0x2651E848, 1 << 10
STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}


def port_guid(index: int) -> str:
    """A function's port GUID (made up, distinct)."""
    return f"0xb200e7030000{index:04x}"


def capabilities(port: Mapping[str, Any]) -> int:
    """A port's capability mask."""
    return CAPABILITIES | (SM_DISABLED if port.get("sm_disabled") else 0)


def devices(nics: Iterable[Mapping[str, Any]]) -> Tree:
    """/sys/class/infiniband: one folder a function, with its PCI device and one port."""
    files: Tree = {}
    for index, nic in enumerate(nics):
        name, port = nic["name"], PORT | nic.get("port", {})
        files |= {
            f"{name}/device": Link(f"/sys/bus/pci/devices/{nic['pci_address']}"),
            f"{name}/node_type": "1: CA",
            f"{name}/fw_ver": "28.43.2566",
            f"{name}/ports/1/state": f"{STATES[port['state']]}: {port['state']}",
            f"{name}/ports/1/phys_state": "3: Disabled" if port["state"] == "DOWN" else "5: LinkUp",
            f"{name}/ports/1/rate": f"{port['rate_gbps']} Gb/sec (4X NDR)",
            f"{name}/ports/1/link_layer": port["link_layer"],
            f"{name}/ports/1/cap_mask": f"{capabilities(port):#010x}",
            f"{name}/ports/1/port_guid": port_guid(index),
        }
    return files


def mads(nics: Iterable[Mapping[str, Any]]) -> Tree:
    """/sys/class/infiniband_mad: `umadN` and `issmN` for each function."""
    files: Tree = {}
    for index, nic in enumerate(nics):
        for kind in ("umad", "issm"):
            files |= {f"{kind}{index}/ibdev": nic["name"], f"{kind}{index}/port": "1"}
    return files
