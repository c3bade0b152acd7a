"""`nvidia-smi -q -x` beside a NodeState: what both can tell of a GPU, field by field.

nvidia-smi is a second reader of the same driver, so a state and a document that were taken in the
same minute must agree; where they do not, one of them reads a wrong field. `compare` lists the
differences. Links, P2P, compute capability and the InfoROM's validity are not in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

Element = ElementTree.Element
Json = dict[str, Any]
NOTHING = ("", "N/A", "[N/A]", "Not Supported", "Insufficient Permissions", "Unknown Error")
"""What nvidia-smi writes where there is no value."""


class Unknown(ValueError):
    """The document has a word that nobody knows."""


@dataclass(frozen=True)
class Field:
    """One reading of a GPU: its key, its place in the document, and how to read it there.

    `slack` is how far two readings of one minute may lie apart; None compares only that both are
    there, for what changes by the second.
    """

    key: str
    place: str
    read: Callable[[str], object]
    slack: int | None = 0


def number(text: str) -> int:
    """The number before a unit: "183359 MiB", "16x", "-3 C"."""
    return int(text.split()[0].rstrip("x"))


def milli(text: str) -> int:
    """Watts as milliwatts."""
    return round(float(text.split()[0]) * 1000)


def word(**known: object) -> Callable[[str], object]:
    """Reads one of a few words, each written without its blanks."""

    def read(text: str) -> object:
        if (key := text.replace(" ", "")) not in known:
            raise Unknown(f"nvidia-smi says {text!r}")
        return known[key]

    return read


def address(text: str) -> str:
    """A PCI address as sysfs writes it: "00000000:8F:00.0" is 0000:8f:00.0."""
    domain, rest = text.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def device(text: str) -> str:
    """The device's half of "290110DE"."""
    return text[:4].lower()


FLAG = word(Enabled=True, Disabled=False, Yes=True, No=False)
RECOVERY = word(
    GPUReset=1, Reset=1, NodeReboot=2, Reboot=2, DrainP2P=3, DrainandReset=4, **{"None": 0}
)
FABRIC = word(NotSupported=0, NotStarted=1, InProgress=2, Completed=3)
STATUS = word(Success=0, InsufficientResources=23, UnknownError=999)
SUMMARY = word(**{"N/A": 0}, NotSupported=0, Healthy=1, Unhealthy=2, LimitedCapacity=3)
BANKS = "remapped_rows/row_remapper_histogram/row_remapper_histogram_"
LINK = "pci/pci_gpu_link_info/"
FIELDS = (
    Field("name", "product_name", str),
    Field("persistence", "persistence_mode", FLAG),
    Field("mig", "mig_mode/current_mig", FLAG),
    Field("mig_pending", "mig_mode/pending_mig", FLAG),
    Field("serial", "serial", str),
    Field("uuid", "uuid", str),
    Field("minor", "minor_number", number),
    Field("vbios", "vbios_version", str),
    Field("board_part_number", "board_part_number", str),
    Field("module_id", "platformInfo/module_id", number),
    Field("inforom", "inforom_version/img_version", str),
    Field("recovery_action", "gpu_recovery_action", RECOVERY),
    Field("gsp_firmware", "gsp_firmware_version", str),
    Field("device_id", "pci/pci_device_id", device),
    Field("pci_address", "pci/pci_bus_id", address),
    Field("pcie.max_generation", LINK + "pcie_gen/max_link_gen", number),
    Field("pcie.generation", LINK + "pcie_gen/current_link_gen", number, None),
    Field("pcie.max_width", LINK + "link_widths/max_link_width", number),
    Field("pcie.width", LINK + "link_widths/current_link_width", number),
    Field("pcie.replays", "pci/replay_counter", number),
    Field("memory_total_mib", "fb_memory_usage/total", number),
    Field("bar1_total_mib", "bar1_memory_usage/total", number),
    Field("ecc", "ecc_mode/current_ecc", FLAG),
    Field("ecc_pending", "ecc_mode/pending_ecc", FLAG),
    Field("sram.threshold_exceeded", "ecc_errors/aggregate/sram_threshold_exceeded", FLAG),
    Field("repair.channel_pending", "ecc_errors/channel_repair_pending", FLAG),
    Field("repair.tpc_pending", "ecc_errors/tpc_repair_pending", FLAG),
    Field("remap.correctable", "remapped_rows/remapped_row_corr", number),
    Field("remap.uncorrectable", "remapped_rows/remapped_row_unc", number),
    Field("remap.pending", "remapped_rows/remapped_row_pending", FLAG),
    Field("remap.failure", "remapped_rows/remapped_row_failure", FLAG),
    *(
        Field(f"remap.banks.{b}", BANKS + b, number)
        for b in ("max", "high", "partial", "low", "none")
    ),
    Field("temperature_c", "temperature/gpu_temp", number, 10),
    Field("temperature_margin_c", "temperature/gpu_temp_tlimit", number, 10),
    Field("slowdown_margin_c", "temperature/gpu_temp_slow_tlimit_threshold", number),
    Field("memory_temperature_c", "temperature/memory_temp", number, 10),
    Field("power_usage_mw", "gpu_power_readings/instant_power_draw", milli, None),
    Field("power_limit_mw", "gpu_power_readings/requested_power_limit", milli),
    Field("power_enforced_mw", "gpu_power_readings/current_power_limit", milli),
    Field("power_default_mw", "gpu_power_readings/default_power_limit", milli),
    Field("power_max_mw", "gpu_power_readings/max_power_limit", milli),
    Field("sm_clock_mhz", "clocks/sm_clock", number, None),
    Field("mem_clock_mhz", "clocks/mem_clock", number, None),
    Field("sm_clock_max_mhz", "max_clocks/sm_clock", number),
    Field("mem_clock_max_mhz", "max_clocks/mem_clock", number),
    Field("fabric.state", "fabric/state", FABRIC),
    Field("fabric.status", "fabric/status", STATUS),
    Field("fabric.clique_id", "fabric/cliqueId", number),
    Field("fabric.cluster_uuid", "fabric/clusterUuid", str),
    Field("fabric.health_summary", "fabric/health/summary", SUMMARY),
)
NODE = {"driver_version": "driver_version", "cuda_driver_version": "cuda_version"}
"""Readings of the whole node: key in a state's nvml, and place in the document."""

REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
"""Bits of nvml.h nvmlClocksEventReasons by their name in the document."""

HEALTH = {
    "bandwidth": (0, word(**{"N/A": 0}, Degraded=1, Full=2)),
    "route_recovery_in_progress": (2, word(**{"N/A": 0}, **{"True": 1, "False": 2})),
    "route_unhealthy": (4, word(**{"N/A": 0, "True": 1, "False": 2})),
    "access_timeout_recovery": (6, word(**{"N/A": 0, "True": 1, "False": 2})),
    "incorrect_configuration": (8, word(**{"N/A": 0, "None": 1})),
}
"""Fields of the fabric's health mask: shift, and the number of each word."""


def text_at(gpu: Element, place: str) -> str:
    """The text of an element, "" where there is none."""
    return (gpu.findtext(place) or "").strip()


def uncorrected(gpu: Element, counter: str, prefix: str = "") -> int | None:
    """Uncorrected ECC errors of a counter, of all memories or of one; None when not counted."""
    counts = [
        (entry.text or "").strip()
        for entry in gpu.findall(f"ecc_errors/{counter}/*")
        if entry.tag.startswith(prefix) and "_uncorrectable" in entry.tag
    ]
    return None if not counts or "N/A" in counts else sum(map(int, counts))


def event_reasons(gpu: Element) -> int | None:
    """The mask of the reasons that are active; None when none is listed."""
    place = "clocks_event_reasons/clocks_event_reason_"
    words = {name: text_at(gpu, place + name) for name in REASONS}
    if not any(words.values()):
        return None
    return sum(bit for name, bit in REASONS.items() if words[name] == "Active")


def health_mask(gpu: Element) -> int | None:
    """The health mask from its fields; None when the document has none of them."""
    if gpu.find("fabric/health") is None:
        return None
    words = {name: text_at(gpu, f"fabric/health/{name}") or "N/A" for name in HEALTH}
    return sum(int(str(read(words[name]))) << shift for name, (shift, read) in HEALTH.items())


SUMS: dict[str, Callable[[Element], int | None]] = {
    "gsp_enabled": lambda gpu: text_at(gpu, "gsp_firmware_version") not in NOTHING,
    "ecc_volatile_uncorrected": lambda gpu: uncorrected(gpu, "volatile"),
    "ecc_aggregate_uncorrected": lambda gpu: uncorrected(gpu, "aggregate"),
    "sram.volatile_uncorrected": lambda gpu: uncorrected(gpu, "volatile", "sram"),
    "sram.aggregate_uncorrected": lambda gpu: uncorrected(gpu, "aggregate", "sram"),
    "clocks_event_reasons": event_reasons,
    "fabric.health_mask": health_mask,
}
"""Readings that are put together from several fields of the document."""

SLACK: dict[str, int | None] = {field.key: field.slack for field in FIELDS}
SLACK |= dict.fromkeys(SUMS, 0) | {"clocks_event_reasons": None}


def readings(gpu: Element) -> dict[str, object]:
    """Every reading of one GPU by its key in a NodeState; None where nvidia-smi has no value."""
    found: dict[str, object] = {}
    for field in FIELDS:
        text = text_at(gpu, field.place)
        words = field.read in (SUMMARY, FABRIC, STATUS) and (text != "N/A" or field.read is SUMMARY)
        found[field.key] = field.read(text) if text and (words or text not in NOTHING) else None
    return found | {key: read(gpu) for key, read in SUMS.items()}


def parse(text: str) -> list[Element]:
    """The GPUs of a document, in NVML's order."""
    return ElementTree.fromstring(text).findall("gpu")


def value_at(gpu: Json, key: str) -> object:
    """One reading of a state's GPU by its dotted key."""
    value: Any = gpu
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def differs(seen: object, message: object, slack: int | None) -> bool:
    """Whether a state's reading and nvidia-smi's cannot both be right."""
    missing = seen is None or (isinstance(seen, dict) and "unmeasured" in seen)
    if missing or message is None:
        return missing != (message is None)
    if slack is None:
        return False
    if slack and isinstance(seen, int) and isinstance(message, int):
        return abs(seen - message) > slack
    return type(seen) is not type(message) or seen != message


def compare(state: Json, text: str) -> list[str]:
    """What a state and an `nvidia-smi -q -x` of the same minute tell differently, in words."""
    gpus, documents = state["gpus"], parse(text)
    if len(gpus) != len(documents):
        return [f"{len(gpus)} GPUs in the state, {len(documents)} in the document"]
    return [
        *node_differences(state, text),
        *(line for pair in zip(gpus, documents, strict=True) for line in differences(*pair)),
    ]


def node_differences(state: Json, text: str) -> Iterator[str]:
    """Differences in what is reported once."""
    root = ElementTree.fromstring(text)
    for key, place in NODE.items():
        seen, message = state["nvml"].get(key), root.findtext(place)
        if differs(seen, message, 0):
            yield f"nvml.{key}: state {seen!r}, nvidia-smi {message!r}"


def differences(gpu: Json, document: Element) -> Iterator[str]:
    """Differences of one GPU."""
    for key, message in readings(document).items():
        if differs(seen := value_at(gpu, key), message, SLACK[key]):
            yield f"GPU {gpu['index']} {key}: state {seen!r}, nvidia-smi {message!r}"
