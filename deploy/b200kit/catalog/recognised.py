"""Which hardware of the catalogue a node is, by the PCI ids of its GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from b200kit.catalog.hardware import gpu_name
from b200kit.catalog.hardware.facts import Hardware
from b200kit.node.state import machine_kind
from b200kit.node.state.machine_kind import MachineKind
from b200kit.node.state.view import StateView, Unread


class Unrecognised(ValueError):
    """The GPUs are of no hardware that is known, or were not read; one line says which."""


def on_bus(state: Mapping[str, Any], known: Iterable[Hardware]) -> Hardware:
    """The hardware of an observed node, by what its PCI bus shows; no driver is needed.

    On bare metal one GPU that a board has is a board that lost the others; where boards are passed
    through to guests, and of GPUs that no board has, it is one by itself.
    """
    try:
        gpus = StateView(state).items("pci", "gpus")
        ids = {f"{gpu.text('vendor')}:{gpu.text('device')}" for gpu in gpus}
    except Unread as error:
        raise Unrecognised(f"the PCI bus could not be read: {error}") from None
    candidates = for_machine(state, known)
    of_board = any(ids <= one.gpus.keys() for one in candidates if one.gpu_count > 1)
    several = len(gpus) > 1 or (of_board and _kind(state) is MachineKind.BARE_METAL)
    return matching(ids, len(gpus), several, candidates)


def for_machine(state: Mapping[str, Any], known: Iterable[Hardware]) -> list[Hardware]:
    """The hardware for the node's kind of machine: virtual only where it is known to be."""
    virtual = _kind(state) is MachineKind.VIRTUAL
    return [hardware for hardware in known if hardware.virtual in (None, virtual)]


def matching(
    ids: Set[str], count: int, several: bool, candidates: Sequence[Hardware]
) -> Hardware:  # fmt: skip
    """The hardware whose GPUs these are; a board has several, also when some of them are lost."""
    for hardware in candidates:
        if ids and ids <= hardware.gpus.keys() and several == (hardware.gpu_count > 1):
            if count > hardware.gpu_count:
                raise Unrecognised(
                    f"the node shows {count} GPUs, and {hardware.name} has {hardware.gpu_count}"
                )
            return hardware
    seen = f"{count} GPU{'' if count == 1 else 's'} of {' and '.join(map(gpu_name, sorted(ids)))}"
    names = ", ".join(one.name for one in candidates)
    raise Unrecognised(f"the node shows {seen if ids else 'no GPU'}: it is none of {names}")


def _kind(state: Mapping[str, Any]) -> MachineKind | None:
    try:
        return machine_kind.of(StateView(state)).kind
    except Unread:
        return None
