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

from b200kit.node.state.view import GpuView, StateView, Unmeasured

SCHEMA = "b200kit/passport/1"
PATH = "/var/lib/b200kit/passport.json"
IDENTITY = ("uuid", "serial")
FIRMWARE = ("vbios", "inforom", "board_part_number")


class Unreadable(ValueError):
    """A reading a passport needs is not there; the text says which and why."""


def taken(value: Any, what: str) -> Any:
    """A reading, or Unreadable."""
    if isinstance(value, Unmeasured):
        raise Unreadable(f"{what}: {value.reason}")
    return value


def position(gpu: GpuView) -> str:
    """The key of a GPU in a passport: its module, or its index where NVML numbers no modules."""
    module = gpu.number("module_id")
    return f"index {gpu.index}" if isinstance(module, Unmeasured) else str(module)


def link_recoveries(gpu: GpuView) -> int | Unmeasured:
    """Recoveries of all links together since the driver was loaded; 0 without NVLink."""
    links = gpu.items("links")
    if isinstance(links, Unmeasured):
        return links
    total = 0
    for link in links:
        count = link.number("recovery_events")
        if isinstance(count, Unmeasured):
            return count
        total += count
    return total


def remapped_rows(gpu: GpuView) -> int | Unmeasured:
    """Memory rows remapped for uncorrectable errors since production."""
    return gpu.number("remap", "uncorrectable")


def entry(gpu: GpuView) -> dict[str, Any]:
    """One GPU's page. Counters that this hardware does not have are null."""
    texts = {key: taken(gpu.text(key), f"{gpu.subject} {key}") for key in IDENTITY + FIRMWARE}
    counters = {"remapped_rows": remapped_rows(gpu), "link_recoveries": link_recoveries(gpu)}
    return texts | {k: None if isinstance(v, Unmeasured) else v for k, v in counters.items()}


def data_nics(state: StateView) -> list[str] | Unmeasured:
    """PCI addresses of the NICs that carry data, sorted."""
    nics = state.items("pci", "nics")
    if isinstance(nics, Unmeasured):
        return nics
    found = []
    for nic in nics:
        address = nic.text("address")
        if isinstance(address, Unmeasured):
            return address
        # One without readable product data is no NVSwitch's on a fit node: switch_management.
        if nic.flag("switch_management") is not True:
            found.append(address)
    return sorted(found)


def issue(state: object) -> dict[str, Any]:
    """The passport of a node as it is now; raises Unreadable when a page cannot be filled."""
    view = StateView(state)
    gpus = taken(view.gpus(), "the GPUs")
    return {
        "schema": SCHEMA,
        "accepted_at": taken(view.text("taken_at"), "the time"),
        "gpus": {position(gpu): entry(gpu) for gpu in gpus},
        "nics": taken(data_nics(view), "the NICs"),
    }


def same(one: object, other: object) -> bool:
    """Whether two passports say the same of the node, whenever they were issued."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    return {**one, "accepted_at": None} == {**other, "accepted_at": None}
