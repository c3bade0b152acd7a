"""The machine that a run is about: who it is, what it has, and what is counted on every boot."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from b200kit.node.acceptance import folder
from b200kit.node.acceptance.table import Facts, table
from b200kit.node.bandwidth.run import find
from b200kit.node.facts import pci, storage
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.facts.observe import NVML_TIMEOUT_S
from b200kit.node.lib import documents
from b200kit.node.lib.readings import absent, attempt, command, text
from b200kit.node.state import expectation
from b200kit.node.state.acceptance import AcceptedMachine, MetricValue, Tool
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import StateView, Unread

DMI = Path("/sys/class/dmi/id")
EXPECT = Path(expectation.PATH)
DISKS = ("nvme", "sd")


class AcceptanceRefused(Exception):
    """Why nothing is run; one line."""


def observed() -> StateView:
    """What NVML says now; its parts are unmeasured where it does not answer."""
    return StateView(plausible(Worker(NVML_TIMEOUT_S).result()))


def machine(state: StateView) -> AcceptedMachine:
    """Who this is. Raises AcceptanceRefused where NVML does not answer."""
    try:
        gpus = tuple(gpu.text("uuid") for gpu in state.gpus)
        driver = state.text("nvml", "driver_version")
    except Unread as error:
        raise AcceptanceRefused(f"NVML does not answer: {error}") from None
    serials = tuple(gpu.known(str, "serial") or "" for gpu in state.gpus)
    product, serial = (absent(DMI / name) or "" for name in ("product_name", "product_serial"))
    return AcceptedMachine(product, serial, gpus, serials, driver, platform.release())


def facts(found: AcceptedMachine) -> tuple[Facts, dict[str, Tool], dict[str, str]]:
    """What the steps depend on, the tools that are there, and of the others what brings them.

    How many GPUs and links there must be says the node's expectation, where it has one. Raises
    AcceptanceRefused where it says another number of GPUs, or cannot be read.
    """
    tools, missing = {}, {}
    for name, tool in table().tools.items():
        if path := find(name, tool.places):
            tools[name] = _tool(path, tool.version)
        else:
            missing[name] = tool.brings
    try:
        expect = Expectation(documents.read(EXPECT))
    except FileNotFoundError:
        expect = Expectation({})
    except documents.Malformed as error:
        raise AcceptanceRefused(str(error)) from None
    count = expect.known(int, "gpu_count")
    if count not in (None, len(found.gpus)):
        raise AcceptanceRefused(f"NVML lists {len(found.gpus)} GPUs, and {count} are expected")
    if not found.gpus:
        raise AcceptanceRefused("NVML lists no GPU")
    asked = {
        key: expect.known(int, "hardware", "expect", name, "value")
        for key, name in (("nvlinks", "nvlink.links"), ("pcie_generation", "pcie.generation"))
    }
    programs = {name: tool.path for name, tool in tools.items()}
    known = {key: value for key, value in asked.items() if value is not None}
    return Facts(len(found.gpus), disks(), programs=programs, **known), tools, missing


def _tool(path: str, version: str) -> Tool:
    said = attempt(lambda: command([path, version])) if version else ""
    lines = said.strip().splitlines() if isinstance(said, str) else []
    return Tool(path, folder.sha256(Path(path)), lines[0].strip()[:200] if lines else "unknown")


def require_same(then: AcceptedMachine, now: AcceptedMachine) -> None:
    """Raise AcceptanceRefused where a run's finished segments are of another machine."""
    for key in AcceptedMachine.__dataclass_fields__:
        was, found = getattr(then, key), getattr(now, key)
        if was != found:
            word = key.replace("_", " ")
            raise AcceptanceRefused(f"the run began with another {word}: {was}, now {found}")


def require_same_tools(tools: Mapping[str, Tool]) -> None:
    """Raise AcceptanceRefused where a tool has other bytes than the run began with."""
    for name, tool in tools.items():
        digest = attempt(partial(folder.sha256, Path(tool.path)))
        if digest != tool.sha256:
            raise AcceptanceRefused(f"{name} at {tool.path} is not what the run began with")


def disks() -> tuple[str, ...]:
    """NVMe and SCSI disks by name; what is empty, such as a card reader, is none."""
    return tuple(
        block.name
        for block in sorted(storage.BLOCK.glob("*"))
        if block.name.startswith(DISKS)
        and attempt(partial(storage.kind, block)) == "disk"
        and attempt(partial(text, block / "size")) not in ("0", "")
    )


def inventory(state: StateView) -> tuple[MetricValue, ...]:
    """What is counted, and the GPUs' temperature, which is that of rest where nothing runs.

    What cannot be read has no value.
    """
    ports = [1 for nic in pci.infiniband() for _ in (nic / "ports").glob("[0-9]*")]
    counts = {"nvme_disks": len([one for one in disks() if one.startswith("nvme")]),
              "rdma_ports": len(ports), "gpus": len(state.known_gpus)}  # fmt: skip
    values = [MetricValue(metric, "node", float(count), "") for metric, count in counts.items()]
    for gpu in state.known_gpus:
        for metric, unit, keys in (
            ("gpu_pcie_lanes", "", ("pcie", "width")),
            ("idle_temperature_c", "C", ("temperature_c",)),
        ):
            if (value := gpu.known(int, *keys)) is not None:
                values.append(MetricValue(metric, gpu.subject, float(value), unit))
    return tuple(values)


def dcgm_floors(state: StateView) -> tuple[str, tuple[MetricValue, ...]]:
    """Which of DCGM's entries hold for the GPUs, in words, and what those hold them to."""
    names, values = set(), []
    for gpu in state.known_gpus:
        device = pci.SYS / "bus/pci/devices" / (gpu.known(str, "pci_address") or "unknown")
        ids = [
            attempt(partial(pci.identifier, device / key)) for key in ("device", "subsystem_device")
        ]
        entry = table().dcgm_entry(*map(str, ids))
        names.add(entry.name if entry else "none")
        for metric, unit, value in () if entry is None else (
            ("dcgm_target_power_w", "W", entry.target_power_w),
            ("dcgm_stress_floor_gflops", "Gflop/s", entry.stress_gflops),
            ("dcgm_memory_floor_mb_per_s", "MB/s", entry.memory_mb_per_s),
        ):  # fmt: skip
            values.append(MetricValue(metric, gpu.subject, float(value), unit))
    return f"DCGM's entry for these GPUs: {', '.join(sorted(names))}", tuple(values)
