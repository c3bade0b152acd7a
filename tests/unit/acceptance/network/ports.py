"""A sound port as a node reads it, and the rail that declares it."""

from __future__ import annotations

import copy
from typing import Any

from b200kit.inventory.keys.rails import Rail

RAIL = Rail(
    rail=0, hca="mlx5_0", leaf="leaf-03", port="swp1", gbit=400, mtu=9000, lossless=True,
    tclass=106, priority=3,
)  # fmt: skip
_PORT: dict[str, Any] = {
    "rail": 0, "hca": "mlx5_0", "there": True, "interface": "ens1f0np0",
    "state": "ACTIVE", "physical_state": "LinkUp", "rate_gbit": 400.0,
    "gid": {"index": 5, "type": "RoCE v2", "address": "0000:0000:0000:0000:0000:ffff:0a00:0001"},
    "firmware": "28.43.2026", "board": "MT_0000000838", "guid": "a088:c203:0012:3456",
    "pcie_current_speed": "32.0 GT/s PCIe", "pcie_max_speed": "32.0 GT/s PCIe",
    "pcie_current_width": "16", "pcie_max_width": "16",
    "counters": {"symbol_error": 4, "link_downed": 1, "port_xmit_data": 10},
    "physical": {
        "effective_errors": 0, "effective_ber": 1.5e-254, "raw_ber": 3e-10, "link_downs": 0,
        "advice": "No issue was observed",
        "module": {"vendor": "Mellanox", "part": "MMS4X00-NS400", "serial": "MT2345FT00001"},
    },
    "mtu": 9000, "trust": "dscp", "pfc": [3],
    "ecn": {"np": [3], "rp": [3]},
    "neighbour": {"switch": "leaf-03", "port": "swp1", "description": "to n01"},
}  # fmt: skip


def port(path: str = "", value: object = None) -> dict[str, Any]:
    """The sound port, with one reading changed by its dotted name."""
    found = copy.deepcopy(_PORT)
    at = found
    *above, last = path.split(".")
    for key in above:
        at = at[key]
    if path:
        at[last] = value
    return found
