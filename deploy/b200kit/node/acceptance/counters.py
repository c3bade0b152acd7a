"""Hardware counters around a segment, and by how much they grew.

A counter has a name and a subject, "ecc_volatile_uncorrected/GPU 3". What cannot be read has no
key, and is unknown, never 0. Those of GPUs count since the driver was loaded or over the GPU's
life, those of the kernel since the boot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from b200kit.node.facts import xid
from b200kit.node.lib.readings import attempt, is_digits, text
from b200kit.node.state.acceptance import SegmentLine
from b200kit.node.state.view import GpuView, StateView

EDAC = Path("/sys/devices/system/edac/mc")
CORRECTED = frozenset({"rows_remapped_corrected", "edac_ce", "pcie_replays", "nvlink_recovered",
                       "nvlink_integrity_errors"})  # fmt: skip
"""Counters whose growth means that data were mended; with every other one, some were lost."""
OF_GPUS: dict[str, tuple[str, ...]] = {
    "ecc_volatile_uncorrected": ("ecc_volatile_uncorrected",),
    "ecc_aggregate_uncorrected": ("ecc_aggregate_uncorrected",),
    "sram_uncorrected": ("sram", "volatile_uncorrected"),
    "rows_remapped_uncorrected": ("remap", "uncorrectable"),
    "rows_remapped_corrected": ("remap", "correctable"),
    "remap_pending": ("remap", "pending"),
    "remap_failed": ("remap", "failure"),
    "pcie_replays": ("pcie", "replays"),
}
OF_LINKS = {
    "nvlink_recovery_failed": "recovery_failed",
    "nvlink_recovered": "recovery_success",
    "nvlink_integrity_errors": "integrity_errors",
}
NEEDED = ("ecc_volatile_uncorrected", "remap_pending", "remap_failed")
"""What every data centre GPU tells; together with xids and edac_ue no run passes without them."""


def read(state: StateView, log: Callable[[], Any] = xid.kernel_log) -> dict[str, int]:
    """All counters that can be read now: of NVML's part of a state, the kernel's log and EDAC."""
    found = {
        f"{name}/{gpu.subject}": value
        for gpu in state.known_gpus
        for name, value in _of_gpu(gpu).items()
    }
    lines = attempt(log)
    if isinstance(lines, list):
        addresses = [entry["pci_address"] for entry in xid.found(xid.XID, lambda: lines)]
        subjects = {gpu.known(str, "pci_address") or "": gpu.subject for gpu in state.known_gpus}
        found |= {f"xids/{subject}": 0 for subject in subjects.values()}
        for address in addresses:
            name = f"xids/{subjects.get(address, address)}"
            found[name] = found.get(name, 0) + 1
        found["sxids/node"] = len(xid.found(xid.SXID, lambda: lines))
    return {**found, **_edac()}


def _of_gpu(gpu: GpuView) -> dict[str, int]:
    readings = {name: gpu.reading(*keys) for name, keys in OF_GPUS.items()}
    for name, key in OF_LINKS.items():
        counts = [link.reading(key) for link in gpu.known_items("links")]
        whole = [count for count in counts if isinstance(count, int)]
        readings[name] = sum(whole) if counts and len(whole) == len(counts) else None
    return {name: int(value) for name, value in readings.items() if isinstance(value, int)}


def _edac() -> dict[str, int]:
    """Errors of each memory controller of the host."""
    found = {}
    for folder in sorted(EDAC.glob("mc[0-9]*")):
        for kind in ("ue", "ce"):
            count = attempt(partial(text, folder / f"{kind}_count"))
            if isinstance(count, str) and is_digits(count):
                found[f"edac_{kind}/{folder.name}"] = int(count)
    return found


def growth(lines: Sequence[SegmentLine]) -> dict[str, int | None]:
    """By how much each counter grew in the windows of a run; None where that is unknown.

    A window is a segment, or the time from one to the next in the same boot. One in which a counter
    went backwards, or was read at one end only, makes it unknown, for nobody saw what was between.
    """
    windows = [(line.before, line.after) for line in lines]
    for earlier, line in pairwise(lines):
        if earlier.boot_id == line.boot_id:
            windows.append((earlier.after, line.before))
    names = {name for line in lines for name in (*line.before, *line.after)}
    return {name: _grown(name, windows) for name in sorted(names)}


def _grown(name: str, windows: Sequence[tuple[Mapping[str, int], Mapping[str, int]]]) -> int | None:
    total = 0
    for before, after in windows:
        begin, end = before.get(name), after.get(name)
        if begin is None or end is None or end < begin:
            # An address that first occurs in the log had no message before.
            if begin is None and end is not None and name.startswith("xids/") and before:
                begin = 0
            else:
                return None
        total += end - begin
    return total


def lacking(gpus: int, grown: Mapping[str, int | None]) -> list[str]:
    """Counters that must be known of a machine of so many GPUs, and that no line has."""
    owed = [f"{name}/GPU {index}" for name in (*NEEDED, "xids") for index in range(gpus)]
    lost = [name for name in owed if name not in grown]
    return lost if any(name.startswith("edac_ue/") for name in grown) else [*lost, "edac_ue/node"]
