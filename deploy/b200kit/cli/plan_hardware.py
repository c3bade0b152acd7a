"""The GPUs of a recorded node as hardware of the catalogue, or why they are none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from b200kit.catalog import hardware, load
from b200kit.catalog.recognised import Unrecognised, for_machine, matching
from b200kit.node.checks.gpu import power
from b200kit.node.placement.cpu_cores import LayoutError, whole
from b200kit.node.state.view import StateView
from b200kit.sizing.fit import GpuPool

# The part of NVML's figure that a process can use: 178.35 GiB of 183,359 MiB on a B200
# (inferred for others).
_VISIBLE = 0.996


def names() -> list[str]:
    """Every hardware of the catalogue."""
    return hardware.names()


def power_cap(state: Mapping[str, Any]) -> str:
    """At which power the GPUs are capped; empty where they are not."""
    return power.capped(StateView(state))


def recognised(state: Mapping[str, Any], asked: int | None) -> GpuPool:
    """The GPUs to plan for: *asked* of what they are, by default all."""
    gpus = state.get("gpus")
    if not isinstance(gpus, list):
        raise LayoutError("the node's GPUs were not read")
    ids = _ids(gpus)
    candidates = for_machine(state, load.load().hardware.values())
    try:
        found = matching(ids, len(gpus), len(gpus) > 1, candidates)
    except Unrecognised as error:
        raise LayoutError(f"{error}: {_SAY}") from None
    whole = found.gpu_count
    if asked is not None and not 1 <= asked <= whole:
        raise click.UsageError(f"--gpus {asked}: {found.name} has 1 to {whole}")
    usable = asked or whole
    if len(gpus) < usable:
        raise LayoutError(
            f"the node shows {len(gpus)} of {usable} GPUs; allow it with --gpus {len(gpus)}"
        )
    memory = _memory(gpus) or found.gpu_bytes
    if not memory:
        raise click.UsageError(
            f"the memory of the GPUs is in neither the state nor hardware {found.name}"
        )
    return GpuPool(found.name, usable, memory, whole, frozenset(found.gpus[i] for i in ids))


def _ids(gpus: Sequence[Any]) -> set[str]:
    found = set()
    for number, gpu in enumerate(gpus):
        read = gpu.get("device_id") if isinstance(gpu, Mapping) else None
        if not isinstance(read, str):
            raise LayoutError(f"the PCI device id of GPU {number} was not read: {_SAY}")
        found.add(f"10de:{read}")
    return found


_SAY = "what is not recognised is not planned for"


def _memory(gpus: Sequence[Any]) -> float:
    """Memory of the smallest GPU that a process can see, bytes; 0 where the state has none."""
    reported = [gpu["memory_total_mib"] for gpu in gpus if "memory_total_mib" in gpu]
    if not reported:
        return 0
    known = [whole(mib) or 0 for mib in reported]
    if len(known) < len(gpus) or not all(known):
        raise LayoutError("the memory of a GPU was not read (gpus.memory_total_mib)")
    return min(known) * 2**20 * _VISIBLE
