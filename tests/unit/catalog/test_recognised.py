"""Which hardware a node is: by what its PCI bus shows, and never by a guess that leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.catalog.recognised import Unrecognised, on_bus
from tests.unit import states


def name_of(state: dict[str, Any]) -> str:
    """The hardware of a state."""
    return on_bus(state, load.load().hardware.values()).name


def bare_metal(count: int) -> dict[str, Any]:
    """A node of which both readings say that it is no guest, with some of its GPUs."""
    state = states.healthy()
    state["pci"]["gpus"] = state["pci"]["gpus"][:count]
    state["cpus"]["hypervisor"] = False
    state["readiness"] = {"virtualization": "none"}
    return state


@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_board_that_lost_gpus_is_still_that_board(count: int) -> None:
    assert name_of(bare_metal(count)) == "hgx-b200"


def test_one_gpu_of_a_guest_is_a_single_one() -> None:
    state = states.recorded("healthy-hgx-b200-vm")
    assert name_of(state) == "hgx-b200-vm"
    state["pci"]["gpus"] = state["pci"]["gpus"][:1]
    assert name_of(state) == "single"


@pytest.mark.parametrize(("device", "name"), [("2bb1", "single"), ("2330", "hgx-h100")])
def test_gpu_that_no_board_has_is_a_single_one_on_bare_metal(device: str, name: str) -> None:
    state = bare_metal(1)
    state["pci"]["gpus"][0]["device"] = device
    assert name_of(state) == name


def without(state: dict[str, Any], what: str) -> dict[str, Any]:
    """The state with one reading spoiled."""
    if what == "bus":
        state["pci"]["gpus"] = {"unmeasured": "no /sys"}
    elif what == "id":
        state["pci"]["gpus"][3]["device"] = {"unmeasured": "EIO"}
    elif what == "mixed":
        state["pci"]["gpus"][3]["device"] = "2330"
    elif what == "more":
        state["pci"]["gpus"] *= 2
    else:
        state["pci"]["gpus"] = []
    return state


@pytest.mark.parametrize("what", ["bus", "id", "mixed", "more", "none"])
def test_what_is_not_certain_is_not_recognised(what: str) -> None:
    with pytest.raises(Unrecognised):
        name_of(without(bare_metal(8), what))
