"""Observations built from what real machines printed (tests/captures).

A capture gives what it tells; the rest is supplied by a recorded healthy state. `topo -m` is read
here only: nodes are never judged by it, as it glues cells together and cuts columns off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from b200kit.node.facts.nvml import worker
from b200kit.node.lib import cpulist
from tests.unit import smi_xml, states

CAPTURES = Path(__file__).parents[1] / "captures"
XML = "b200x8-k8s-test-infra.xml"
CELL = re.compile(r"NV\d+|NODE|PHB|PIX|PXB|SYS|X")
ROW = re.compile(r"^((?:GPU|NIC)\d+)\s+(.*)$", re.MULTILINE)
AFFINITY = re.compile(r"\s(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\s+(\d+)\b")
VALUES = re.compile(r"(\d+)C +P\d +(\d+)W / (\d+)W \| +\d+MiB / (\d+)MiB")
SAME_ROOT, SAME_NODE = ("PIX", "PXB"), ("PIX", "PXB", "PHB", "NODE")
NOT_SUPPORTED = 5
"""nvml.h NVML_P2P_STATUS_NOT_SUPPORTED."""

State = dict[str, Any]


def text(name: str) -> str:
    """One capture."""
    return (CAPTURES / name).read_text(encoding="utf-8")


def observed(name: str) -> State:
    """What `node.pyz observe` printed on the virtual machine with one H100."""
    state: State = json.loads(text(f"h100/{name}.json"))
    return state


def put(gpu: State, key: str, value: object) -> None:
    """Set one reading of a GPU by its dotted key."""
    *above, last = key.split(".")
    for part in above:
        gpu = gpu[part]
    gpu[last] = {"unmeasured": "Not Supported (3)"} if value is None else value


def from_xml(document: str) -> State:
    """The node of an `nvidia-smi -q -x`: every field that a NodeState has too, of every GPU."""
    state = states.healthy()
    for index, element in enumerate(smi_xml.parse(document)):
        gpu, message = state["gpus"][index], smi_xml.readings(element)
        for key, value in message.items():
            put(gpu, key, value)
        state["pci"]["gpus"][index].update(
            address=message["pci_address"], device=message["device_id"]
        )
    return state


@dataclass
class Topology:
    """What a `topo -m` tells: cells by row and column, affinities by GPU."""

    names: list[str]
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    affinity: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def nics(self) -> list[str]:
        """Its network devices, by their number."""
        return [name for name in self.names if name.startswith("NIC")]

    def between(self, one: str, other: str) -> str:
        """The cell of two devices, from whichever row was not cut off; "" when neither tells."""
        return self.cells.get((one, other)) or self.cells.get((other, one)) or ""

    def links(self, gpu: str) -> int:
        """The most NVLinks that a GPU has with any other."""
        message = [self.between(gpu, other) for other in self.names if other != gpu]
        return max((int(cell[2:]) for cell in message if cell.startswith("NV")), default=0)

    def near(self, nic: str, wanted: tuple[str, ...]) -> list[int]:
        """GPUs to which a NIC is as near as one of these words."""
        gpus = range(sum(name.startswith("GPU") for name in self.names))
        return [gpu for gpu in gpus if self.between(nic, f"GPU{gpu}") in wanted]

    def manages_switches(self, nic: str) -> bool:
        """Whether it sits with three others on one bridge, away from every GPU."""
        beside = [other for other in self.nics if self.between(nic, other) == "PIX"]
        return len(beside) == 3 and not self.near(nic, SAME_ROOT)


def topology(document: str, gpus: int = 8) -> Topology:
    """Read a `topo -m`, whatever is glued, cut off or missing in it."""
    rows = {name: rest for name, rest in ROW.findall(document) if "CPU Affinity" not in rest}
    width = max(len(CELL.findall(rest)) for rest in rows.values())
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(width - gpus)]
    found = Topology(names)
    for name, rest in rows.items():
        cells = CELL.findall(rest)
        found.cells |= {(name, column): cell for column, cell in zip(names, cells, strict=False)}
        if affinity := AFFINITY.search(rest):
            found.affinity[name] = affinity[1], int(affinity[2])
    return found


def with_topology(base: State, document: str) -> State:
    """A state with the links, P2P over NVLink, NUMA nodes and NICs that a `topo -m` tells."""
    state, topo = deepcopy(base), topology(document, len(base["gpus"]))
    for index, gpu in enumerate(state["gpus"]):
        up = topo.links(f"GPU{index}")
        for link in gpu["links"][up:]:
            link.update(state=0, speed_mbps=0)
    for a, b in pairs(len(state["gpus"])):
        if not topo.between(f"GPU{a}", f"GPU{b}").startswith("NV"):
            state["p2p"]["nvlink"][a][b] = NOT_SUPPORTED
    set_numa(state, topo)
    if topo.nics:
        state["pci"]["nics"] = [nic(state, topo, name) for name in topo.nics]
    return state


def pairs(count: int) -> Iterator[tuple[int, int]]:
    """All ordered pairs."""
    return ((a, b) for a in range(count) for b in range(count) if a != b)


def set_numa(state: State, topo: Topology) -> None:
    """NUMA nodes as the GPUs' affinities tell them; a GPU whose row is cut off keeps its own."""
    known = {node: cpus for cpus, node in topo.affinity.values()}
    memory = sum(node["memory_kib"] for node in state["numa"]) // len(known)
    state["numa"] = [
        {"id": node, "cpus": cpus, "memory_kib": memory} for node, cpus in sorted(known.items())
    ]
    everything = sorted(cpu for cpus in known.values() for cpu in cpulist.parse(cpus))
    state["cpus"].update(
        online=cpulist.format(everything), siblings=[str(cpu) for cpu in everything]
    )
    for index, gpu in enumerate(state["pci"]["gpus"]):
        cpus, node = topo.affinity.get(f"GPU{index}", (gpu["local_cpus"], gpu["numa_node"]))
        gpu.update(local_cpus=cpus, numa_node=node)


def nic(state: State, topo: Topology, name: str) -> State:
    """One NIC: where it sits, and whether it manages the NVSwitches."""
    number, gpus = int(name[3:]), topo.near(name, SAME_NODE)
    beside = topo.near(name, SAME_ROOT)
    above = state["pci"]["gpus"][beside[0]]["bridges"][:-1] if beside else []
    return {
        "name": f"mlx5_{number}",
        "address": f"0000:{0x10 + number:02x}:00.0",
        "numa_node": state["pci"]["gpus"][gpus[0]]["numa_node"] if gpus else -1,
        "switch_management": topo.manages_switches(name),
        "bridges": [bridge["address"] for bridge in above],
        "ports": [{"number": 1, "state": "ACTIVE", "rate_gbps": 400, "link_layer": "InfiniBand"}],
    }


def with_table(base: State, document: str) -> State:
    """A state with what `nvidia-smi` prints: driver, addresses, persistence, memory, ECC, heat."""
    state = deepcopy(base)
    set_driver(state, re.findall(r"Driver Version: (\S+)", document)[0])
    lines = re.findall(r"B200\s+(On|Off)\s+\|\s+(\S+) \S+\s+\|\s+(\d+) \|\n(.*)", document)
    for index, (persistence, address, errors, rest) in enumerate(lines):
        heat, watts, cap, total = re.findall(VALUES, rest)[0]
        here = smi_xml.address(address)
        state["gpus"][index].update(
            persistence=persistence == "On",
            pci_address=here,
            ecc_volatile_uncorrected=int(errors),
            temperature_c=int(heat),
            power_usage_mw=int(watts) * 1000,
            power_limit_mw=int(cap) * 1000,
            memory_total_mib=int(total),
        )
        state["pci"]["gpus"][index]["address"] = here
    return state


def set_driver(state: State, version: str) -> None:
    """Another driver in all its parts; before 580 its packages carry the branch in their names."""
    state["nvml"].update(driver_version=version, nvml_version=f"13.{version}")
    state["modules"].update(nvidia=version, nvidia_uvm=version)
    for gpu in state["gpus"]:
        gpu["gsp_firmware"] = version
    branch = version.split(".")[0]
    for name in ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"):
        state["packages"][f"{name}-{branch}"] = {
            **state["packages"].pop(name),
            "version": f"{version}-1",
        }
        state["packages"][name] = None


def fabric(document: str) -> dict[str, str]:
    """The lines of a fabric block, "State : Completed" or "| State | Completed |", by name."""
    lines = re.findall(r"^[|\s]*([\w ]+?)\s*[:|]\s*([^|\n]+?)\s*\|?$", document, re.MULTILINE)
    return {name.replace(" ", ""): value for name, value in lines}


def with_fabric(base: State, document: str, gpus: list[int]) -> State:
    """A state in which these GPUs have the fabric of a block."""
    state, message = deepcopy(base), fabric(document)
    for index in gpus:
        block = state["gpus"][index]["fabric"]
        block.update(
            state=smi_xml.FABRIC(message["State"]), status=smi_xml.STATUS(message["Status"])
        )
        if "HealthSummary" in message:
            block.update(health_summary=smi_xml.SUMMARY(message["HealthSummary"]), health_mask=0)
    return state


def with_journal(base: State, journal: str) -> State:
    """A state in which the fabric manager gave up as its journal tells."""
    state = deepcopy(base)
    for module in re.findall(r'Kernel module "(\w+)" has not been loaded', journal):
        state["modules"][module] = None
    if "fabric manager cannot be started" in journal:
        unit = state["units"]["nvidia-fabricmanager.service"]
        unit.update(active="failed", sub="failed", result="exit-code", main_pid=0)
    return state


def single_gpu(name: str) -> State:
    """The H100's machine with another GPU, as `nvidia-smi -q -x` showed that one elsewhere.

    What its driver has no call for, nvidia-smi leaves out; the node names it (facts/nvml/offered).
    """
    capture = yaml.safe_load(text("single-gpus.yaml"))[name]
    state, message = observed("serving"), capture["readings"]
    [gpu], [on_bus] = state["gpus"], state["pci"]["gpus"]
    for key, value in message.items():
        put(gpu, key, value)
    speed = {4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}[message["pcie.max_generation"]]
    on_bus.update(device=message["device_id"], max_link_speed=speed, current_link_speed=speed)
    driver = capture["driver"]
    state["nvml"].update(driver_version=driver, nvml_version=f"13.{driver}")
    state["modules"].update(nvidia=driver, nvidia_uvm=driver)
    state["gpus"] = [worker.named(gpu, driver)]
    return state
