"""What is known of the ports that a site declares for traffic between nodes, without any traffic.

    node.pyz acceptance-network <<< '{"ports": [{"rail": 0, "hca": "mlx5_0", "hca_port": 1}]}'

prints `{"ports": [...]}`, one object for each; every value is read, or unmeasured with the reason.
null is a fact: there is no such thing. `qos/` and `ecn/` of sysfs come with NVIDIA's drivers alone;
under the kernel's own mlx5 what `dcb` says stands for them. GIDs are found by type and interface:
their numbers change when an address does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.documents import LARGE, Object
from b200kit.node.lib.readings import absent, attempt, command, is_digits, text

Run = Callable[[list[str]], str]
ROOT = Path("/")
_IB_COUNTERS = ("counters", "hw_counters")
_V4 = "0000:0000:0000:0000:0000:ffff:"
# "qos trust state: dscp" of some versions, "dscp" of others.
_TRUST = re.compile(r"\b(dscp|pcp)\b")
_PRIORITIES = 8


def main(args: list[str]) -> int:
    """The command: a request on stdin, the facts on stdout."""
    del args
    asked = documents.request().get("ports", [])
    print(json.dumps({"ports": [port(entry) for entry in asked]}))
    return 0


def port(asked: Mapping[str, Any], root: Path = ROOT, run: Run = command) -> dict[str, Any]:
    """One port's facts; *root* and *run* are where files and programs are for tests."""
    hca, number = str(asked["hca"]), int(asked.get("hca_port", 1))
    device = root / "sys/class/infiniband" / hca
    at = device / "ports" / str(number)
    found: dict[str, Any] = {"rail": asked["rail"], "hca": hca, "there": at.is_dir()}
    if not at.is_dir():
        return found
    name = attempt(partial(interface, device, at))
    net = root / "sys/class/net" / str(name)
    pci = device / "device"
    found |= {
        "interface": name,
        "state": attempt(lambda: _after_colon(text(at / "state"))),
        "physical_state": attempt(lambda: _after_colon(text(at / "phys_state"))),
        "rate_gbit": attempt(lambda: float(text(at / "rate").split()[0])),
        "gid": attempt(partial(gid, at, name)),
        "firmware": attempt(lambda: text(device / "fw_ver")),
        "board": attempt(lambda: absent(device / "board_id")),
        "guid": attempt(lambda: text(device / "node_guid")),
        **{
            f"pcie_{key}": attempt(partial(absent, pci / f"{key.replace('_', '_link_', 1)}"))
            for key in ("current_speed", "current_width", "max_speed", "max_width")
        },
        "counters": attempt(partial(counters, at)),
        "physical": attempt(lambda: physical(run(_mstlink(pci, number)))),
    }
    if isinstance(name, str):
        found |= {
            "mtu": attempt(lambda: int(text(net / "mtu"))),
            "trust": attempt(partial(trust, net, name, run)),
            "pfc": attempt(lambda: pfc(run(["dcb", "-j", "pfc", "show", "dev", name]))),
            "ecn": attempt(partial(ecn, net)),
            "neighbour": attempt(lambda: neighbour(run(["lldpctl", "-f", "json0", name]), name)),
        }
    return found


def _after_colon(value: str) -> str:
    """ "4: ACTIVE" is ACTIVE."""
    return value.split(":", 1)[1].strip()


def interface(device: Path, at: Path) -> str | None:
    """The network interface of a port, by its GIDs (SoftRoCE has no PCI device), or its device."""
    for entry in sorted((at / "gid_attrs/ndevs").glob("*"), key=lambda path: int(path.name)):
        try:
            return text(entry)
        except OSError:  # EINVAL: of a GID that is not set
            continue
    folder = device / "device/net"
    return next((each.name for each in sorted(folder.glob("*"))), None)


def gid(at: Path, name: str | None) -> dict[str, Any] | None:
    """The GID that traffic is to use: RoCE v2 with the interface's own address, IPv4 before IPv6.

    On Infiniband the first one, which the subnet manager gives; null where there is none.
    """
    if text(at / "link_layer") == "InfiniBand":
        return {"index": 0, "type": "IB", "address": text(at / "gids/0")}
    found = []
    for entry in (at / "gid_attrs/types").iterdir():
        try:
            kind, of = text(entry), text(at / "gid_attrs/ndevs" / entry.name)
        except OSError:
            continue
        address = text(at / "gids" / entry.name)
        if kind == "RoCE v2" and of == name:
            worth = 0 if address.startswith(_V4) else 2 if address.startswith("fe80") else 1
            found.append((worth, int(entry.name), address))
    if not found:
        return None
    _, index, address = min(found)
    return {"index": index, "type": "RoCE v2", "address": address}


def counters(at: Path) -> dict[str, int]:
    """Every counter of a port since it was cleared, by its file's name."""
    return {
        entry.name: int(value)
        for folder in _IB_COUNTERS
        for entry in sorted((at / folder).glob("*"))
        if is_digits(value := text(entry))
    }


def trust(net: Path, name: str, run: Run) -> str | None:
    """By what the adapter sorts packets into priorities: "dscp" or "pcp".

    Without the file: mlx5 trusts DSCP as soon as the kernel's table has an entry for one
    (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c, mlx5e_dcbnl_ieee_setapp).
    """
    said = absent(net / "qos/trust")
    if said is not None:
        found = _TRUST.search(said)
        return found[1] if found else None
    argv = ["dcb", "-j", "app", "show", "dev", name]
    table = documents.decode(Object, run(argv), source="what dcb app shows")
    return "dscp" if table.get("dscp_prio") else "pcp"


def pfc(said: str) -> list[int]:
    """Priorities with flow control, of what `dcb -j pfc show` prints."""
    found = documents.decode(Object, said, source="what dcb pfc shows")["prio_pfc"]
    if len(found) != _PRIORITIES:
        raise ValueError(f"dcb names {len(found)} priorities, not {_PRIORITIES}")
    return [priority for priority, on in enumerate(found) if on is True]


def ecn(net: Path) -> dict[str, list[int]] | None:
    """Priorities on which congestion is notified (np) and reacted to (rp); null without files."""
    folders = {role: net / f"ecn/roce_{role}/enable" for role in ("np", "rp")}
    if not any(folder.is_dir() for folder in folders.values()):
        return None
    return {
        role: [n for n in range(_PRIORITIES) if absent(folder / str(n)) == "1"]
        for role, folder in folders.items()
    }


def neighbour(said: str, name: str) -> dict[str, Any] | None:
    """The switch and its port that LLDP heard on an interface, of `lldpctl -f json0`."""
    heard = documents.decode(Object, said, LARGE, "what lldpctl prints").get("lldp", [])
    for entry in (one for part in heard for one in part.get("interface", [])):
        if entry["name"] == name and entry.get("chassis"):
            chassis, at = entry["chassis"][0], entry["port"][0]
            return {
                "switch": chassis.get("name", chassis.get("id"))[0]["value"],
                "port": at["id"][0]["value"],
                "description": at.get("descr", [{"value": None}])[0]["value"],
            }
    return None


def _mstlink(pci: Path, number: int) -> list[str]:
    return ["mstlink", "-d", pci.resolve(strict=True).name, "-p", str(number), "-m", "-c", "--json"]


def physical(said: str) -> dict[str, Any]:
    """The physical link, of the JSON of mstlink: errors, BER, and the module.

    Figures are texts there, "15E-255" a BER without errors, "N/A" what there is not; a list is
    itself, or below "values".
    """
    output = documents.decode(Object, said, LARGE, "what mstlink prints")["result"]["output"]
    counts = output["Physical Counters and BER Info"]
    module = output.get("Module Info", {})
    return {
        "effective_errors": _figure(int, counts["Effective Physical Errors"]),
        "effective_ber": _figure(float, counts["Effective Physical BER"]),
        "raw_ber": _figure(float, counts.get("Raw Physical BER")),
        "link_downs": _figure(int, counts.get("Link Down Counter")),
        "advice": output.get("Troubleshooting Info", {}).get("Recommendation"),
        "module": {
            "vendor": module.get("Vendor Name"),
            "part": module.get("Vendor Part Number"),
            "serial": module.get("Vendor Serial Number"),
        },
    }


def _figure(kind: type[int] | type[float], value: object) -> float | None:
    return None if value in (None, "N/A", "") else kind(str(value))
