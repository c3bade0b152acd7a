"""Whether a scenario makes sense: nothing left out, places that exist, numbers that fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.lab.hardware.scenario_shape import GPU, SCENARIO, ScenarioError

PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
PCIE_GENERATIONS = range(3, 7)
#: Keys an item of a list cannot do without.
NEEDED = {
    "numa_nodes": ("id", "cpus", "memory_gib"),
    "nics": ("name", "pci_address", "numa_node"),
    "xids": ("gpu", "code", "text"),
}


def _missing(value: Mapping[str, Any], shape: Mapping[str, Any], where: str) -> Iterator[str]:
    for key, inner in shape.items():
        if key not in value:
            yield f"{where} has no '{key}'"
        elif isinstance(inner, dict) and key != "counters":
            yield from _missing(value[key], inner, f"{where}.{key}")


def left_out(written: Mapping[str, Any]) -> Iterator[str]:
    """Complaints about what a scenario does not say although nothing can be made of it then."""
    for key in sorted(set(SCENARIO) - set(written) - {"extends", "numa_distance"}):
        yield f"says nothing of '{key}' and extends no scenario that does"
    for key, needed in NEEDED.items():
        for number, item in enumerate(written.get(key, [])):
            yield from _missing(item, dict.fromkeys(needed, str), f"{key}[{number}]")


def _places(rendered: Mapping[str, Any]) -> Iterator[str]:
    nodes = {node["id"] for node in rendered["numa_nodes"]} | {-1}  # -1: the firmware does not say
    used: set[str] = set()
    for device in [*rendered["gpus"], *rendered["nics"]]:
        address = device["pci_address"]
        if not PCI_ADDRESS.fullmatch(address):
            yield f"PCI address {address!r} is not like '0000:1b:00.0'"
        if address in used:
            yield f"PCI address {address} is used twice"
        if device["numa_node"] not in nodes:
            yield f"{address} is on NUMA node {device['numa_node']}, which is not there"
        used.add(address)


def _bridges(rendered: Mapping[str, Any]) -> Iterator[str]:
    ends = {device["pci_address"] for device in (*rendered["gpus"], *rendered["nics"])}
    for address, bridge in rendered["bridges"].items():
        if not PCI_ADDRESS.fullmatch(address):
            yield f"bridge address {address!r} is not like '0000:1b:00.0'"
        if address in ends:
            yield f"{address} is a device and a bridge"
        for key in ("generation", "max_generation"):
            if bridge["pcie"][key] not in PCIE_GENERATIONS:
                yield f"bridges.{address}.pcie.{key}: no PCIe generation {bridge['pcie'][key]}"


def _numbers(gpu: Mapping[str, Any], where: str) -> Iterator[str]:
    if len(gpu["compute_capability"]) != 2:
        yield f"{where}.compute_capability is not [major, minor]"
    for key in ("generation", "max_generation"):
        if gpu["pcie"][key] not in PCIE_GENERATIONS:
            yield f"{where}.pcie.{key}: no PCIe generation {gpu['pcie'][key]} is known (3 to 6)"
    down = gpu["links"]["down"]
    if isinstance(down, list) and any(link not in range(gpu["links"]["count"]) for link in down):
        yield f"{where}.links.down names a link beyond {gpu['links']['count'] - 1}"
    yield from _by_link(gpu["links"], f"{where}.links")
    yield from _answers(gpu, where)


def _by_link(links: Mapping[str, Any], where: str) -> Iterator[str]:
    """Complaints about what is said for single links."""
    plain = {key: links[key] for key in ("version", "speed_mbps", "remote_type")}
    for name, value in {**plain, **links["counters"]}.items():
        if isinstance(value, dict) and not _is_numbers(value):
            yield f"{where}.{name}: expected link: number"
    for name, value in {**plain, **links["counters"], "fec_history": links["fec_history"]}.items():
        if isinstance(value, dict) and any(link not in range(links["count"]) for link in value):
            yield f"{where}.{name} names a link beyond {links['count'] - 1}"
    history = links["fec_history"]
    for bins in history.values() if isinstance(history, dict) else [history]:
        if not isinstance(bins, list) or [type(count) for count in bins] != [int] * 16:
            yield f"{where}.fec_history: expected 16 numbers"


def _answers(gpu: Mapping[str, Any], where: str) -> Iterator[str]:
    """Complaints about what is answered to single calls and peers."""
    if not _is_numbers(gpu["p2p"]):
        yield f"{where}.p2p: expected peer: P2P status"
    if any(type(code) is not int or code < 1 for code in gpu["refuse"].values()):
        yield f"{where}.refuse: expected NVML call: its error code"


def _is_numbers(value: Mapping[Any, Any]) -> bool:
    return all(type(item) is int for pair in value.items() for item in pair)


def gpus_complaints(gpus: list[dict[str, Any]]) -> Iterator[str]:
    """Complaints about GPUs on their own, each with all it says."""
    for index, gpu in enumerate(gpus):
        missing = list(_missing(gpu, GPU, f"gpus[{index}]"))
        yield from missing or _numbers(gpu, f"gpus[{index}]")


def complaints(rendered: Mapping[str, Any]) -> Iterator[str]:
    """Complaints about how GPUs, NICs and NUMA nodes fit together."""
    yield from _places(rendered)
    yield from _bridges(rendered)
    nodes, matrix = rendered["numa_nodes"], rendered["numa_distance"]
    if matrix is not None and {len(matrix), *map(len, matrix)} != {len(nodes)}:
        yield f"numa_distance is not a square of {len(nodes)} rows"


def refuse(found: Iterator[str], where: str) -> None:
    """Raise ScenarioError with the first of these complaints, if there is one."""
    for complaint in found:
        raise ScenarioError(f"{where}: {complaint}")
