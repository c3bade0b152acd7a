"""A node's passport: what it was when it was last accepted, kept on the node itself.

    {"schema": "b200kit/passport/1", "accepted_at": "2026-11-21T09:40:00Z",
     "gpus": {"6": {"uuid", "serial", "vbios", "inforom", "board_part_number", "remapped_rows",
                    "link_recoveries"}, ...},
     "nics": ["0000:14:00.0", ...]}

GPUs go by the number of their baseboard module, as a PCI address may move with a firmware update
and the place a technician pulls does not. NICs are those that carry data. Pure.
"""

from __future__ import annotations

from typing import Any

from b200kit.node.state.view import GpuView, StateView, Unread

SCHEMA = "b200kit/passport/1"
PATH = "/var/lib/b200kit/passport.json"
IDENTITY = ("uuid", "serial")
FIRMWARE = ("vbios", "inforom", "board_part_number")


def position(gpu: GpuView) -> str:
    """The key of a GPU in a passport: its module, or its index where NVML numbers no modules."""
    module = gpu.known(int, "module_id")
    return f"index {gpu.index}" if module is None else str(module)


def link_recoveries(gpu: GpuView) -> int:
    """Recoveries of all links together since the driver was loaded; 0 without NVLink."""
    return sum(link.number("recovery_events") for link in gpu.links)


def remapped_rows(gpu: GpuView) -> int:
    """Memory rows remapped for uncorrectable errors since production."""
    return gpu.number("remap", "uncorrectable")


def entry(gpu: GpuView) -> dict[str, Any]:
    """One GPU's page. Counters that this hardware does not have are null."""
    page: dict[str, Any] = {key: gpu.text(key) for key in IDENTITY + FIRMWARE}
    for key, count in (("remapped_rows", remapped_rows), ("link_recoveries", link_recoveries)):
        try:
            page[key] = count(gpu)
        except Unread:
            page[key] = None
    return page


def data_nics(state: StateView) -> list[str]:
    """PCI addresses of the NICs that carry data, sorted."""
    nics = [(nic.text("address"), nic) for nic in state.items("pci", "nics")]
    # One without readable product data is no NVSwitch's on a fit node: switch_management.
    return sorted(address for address, nic in nics if not nic.known(bool, "switch_management"))


def issue(state: object) -> dict[str, Any]:
    """The passport of a node as it is now; raises Unread when a page cannot be filled."""
    view = StateView(state)
    return {
        "schema": SCHEMA,
        "accepted_at": view.text("taken_at"),
        "gpus": {position(gpu): entry(gpu) for gpu in view.gpus},
        "nics": data_nics(view),
    }


def same(one: object, other: object) -> bool:
    """Whether two passports say the same of the node, whenever they were issued."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    return {**one, "accepted_at": None} == {**other, "accepted_at": None}
