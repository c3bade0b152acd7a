"""Numbers of NVML in our tables are those of NVIDIA's nvml.h."""

from __future__ import annotations

import pynvml  # type: ignore[import-untyped]

from b200kit.catalog import hardware
from b200kit.node.checks.nvlink import fabric
from b200kit.node.facts.nvml import worker
from tests.unit.lab.nvml.abi import vendor

FABRIC = "NVML_GPU_FABRIC_"
SHIFT = f"{FABRIC}HEALTH_MASK_SHIFT_"
CONFIGURATION = f"{FABRIC}HEALTH_MASK_INCORRECT_CONFIGURATION_"


def numbers(prefix: str) -> dict[str, int]:
    """The constants of nvml.h with a prefix, by the rest of their names."""
    constants = vendor()["constants"].items()
    return {n.removeprefix(prefix): value for n, (value, _) in constants if n.startswith(prefix)}


def in_words(names: dict[str, int]) -> dict[int, str]:
    """A number to its name in nvml.h, as plain words."""
    return {number: name.lower().replace("_", " ") for name, number in names.items()}


def table(name: str) -> set[int]:
    """The numbers that an expectation of hgx-b200 knows."""
    return set(map(int, hardware.load("hgx-b200")["expect"][name]["value"]))


def test_fabric_states_and_summaries_are_those_of_nvml_h() -> None:
    assert in_words(numbers(f"{FABRIC}STATE_")) == fabric.STATES
    assert in_words(numbers(f"{FABRIC}HEALTH_SUMMARY_")) == fabric.SUMMARIES


def test_health_mask_is_laid_out_as_in_nvml_h() -> None:
    assert sorted(numbers(SHIFT).values()) == [field.shift for field in fabric.FIELDS]
    by_shift = {field.shift: field for field in fabric.FIELDS}
    assert len(by_shift[8].words) == len(set(numbers(CONFIGURATION).values()))
    # Of drivers 595 and 615, which the recorded header does not spell out.
    assert pynvml.NVML_GPU_FABRIC_HEALTH_MASK_PARTITION_ASSIGNED_TRUE in by_shift[12].good
    assert pynvml.NVML_GPU_FABRIC_HEALTH_MASK_PARTITION_ASSIGNED_FALSE not in by_shift[12].good
    assert pynvml.NVML_GPU_FABRIC_HEALTH_MASK_GFM_STATE_CONNECTED in by_shift[14].good
    assert pynvml.NVML_GPU_FABRIC_HEALTH_MASK_GFM_STATE_DISCONNECTED not in by_shift[14].good


def test_every_recovery_action_of_nvml_h_has_an_answer() -> None:
    actions = numbers("NVML_GPU_RECOVERY_ACTION_")
    assert table("recovery.actions") == set(actions.values()) - {actions["NONE"]}


def test_faults_are_return_codes_of_nvml_h() -> None:
    assert table("nvml.faults") - set(numbers("NVML_ERROR_").values()) == set()


def test_clock_reasons_are_bits_of_nvml_h() -> None:
    prefix = "nvmlClocksThrottleReason"
    bad = {numbers(prefix)[f"Hw{name}Slowdown"] for name in ("", "Thermal", "PowerBrake")}
    assert table("clocks.bad_reasons") == bad
    assert table("clocks.noted_reasons") == {numbers(prefix)["SwThermalSlowdown"]}


def test_peer_capabilities_are_numbered_as_in_nvml_h() -> None:
    theirs = numbers("NVML_P2P_CAPS_INDEX_")
    assert {name.lower(): number for name, number in theirs.items()} == worker.P2P_KINDS
