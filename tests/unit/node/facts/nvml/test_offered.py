"""What a driver does not offer is named so, by NVIDIA's own headers; all else keeps its reason."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.facts.nvml.worker import first_branches, named
from b200kit.node.lib import tables
from tests.lab.hardware import shim_build
from tests.messages import assert_message
from tests.unit import states
from tests.unit.lab.nvml import abi
from tests.unit.lab.shim_kit import facts, write_conf

OLD = "570.124.06"
SINCE = abi.NODE / "facts" / "nvml" / "since.yaml"
OLDEST = min(abi.vendor()["headers"])


def by_name() -> dict[str, int]:
    """What NVML is asked for to the branch that our table has."""
    table = tables.parse(SINCE.read_text("utf-8"))
    return {name: int(branch) for branch, keys in table.items() for name in keys}


def in_headers() -> dict[str, int]:
    """All that the node program asks NVML for to the branch of the first header that has it."""
    vendor = abi.vendor()
    structs = {name: entry["driver"] for name, entry in vendor["structs"].items()}
    fields = {name: vendor["constants"][name][1] for name in abi.field_ids()}
    return {**structs, **fields, **vendor["functions"]}


def test_branches_are_those_of_the_headers() -> None:
    assert by_name() == {name: in_headers()[name] for name in by_name()}


#: newer than the oldest header, and with its reading in the table under another name
IMPLIED = {
    *(f"{abi.COUNT}FEC_HISTORY_{number}" for number in range(1, 16)),
    # structures of calls that are listed, or of none that the node program makes
    *("nvmlConfComputeSystemState_t", "nvmlTemperature_v1_t", "nvmlMarginTemperature_v1_t"),
    *("nvmlRepairStatus_t", "nvmlEccSramErrorStatus_v1_t", "nvmlGpuFabricInfo_v2_t"),
    *("nvmlSystemDriverBranchInfo_v1_t", "nvmlNvlinkGetBwMode_v1_t", "nvmlPlatformInfo_v2_t"),
}


def test_table_has_all_that_is_newer_than_the_oldest_header() -> None:
    newer = {name for name, branch in in_headers().items() if branch > OLDEST}
    assert set(by_name()) == newer - IMPLIED


def test_every_reading_of_the_table_is_one_of_the_state() -> None:
    gpu = {**states.healthy()["gpus"][0], "confidential_compute": False}
    for key in first_branches():
        first, _, rest = key.partition(".")
        below = gpu[first][0] if isinstance(gpu[first], list) else gpu[first]
        assert not rest or rest in below, key


REFUSED = {"unmeasured": "Function Not Found (13)"}
READINGS = {
    "repair": REFUSED,
    "recovery_action": {"unmeasured": "Not Supported (3)"},
    "uuid": REFUSED,
    "temperature_c": {"unmeasured": "GPU is lost (15)"},
    "links": [{"state": 1, "effective_ber": {"unmeasured": "Invalid Argument (2)"}}],
    "fabric": {"state": 3, "health_summary": {"unmeasured": "Argument version mismatch (25)"}},
}


def not_named(driver: object) -> set[str]:
    """Keys whose reading is as NVML gave it."""
    return {key for key, value in named(READINGS, driver).items() if value == READINGS[key]}


@pytest.mark.parametrize(
    ("driver", "kept"),
    [
        ("535.261.03", {"uuid", "temperature_c"}),
        (OLD, {"uuid", "temperature_c", "links", "recovery_action"}),
        ("580.65.06", set(READINGS)),
        ("unknown", set(READINGS)),
        ({"unmeasured": "why"}, set(READINGS)),
    ],
)
def test_only_what_the_driver_refuses_for_its_age_is_named(driver: object, kept: set[str]) -> None:
    assert not_named(driver) == kept


@pytest.fixture
def old_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The library of a driver of 570, which has no call for repairs and no version 3 structure."""
    library = shim_build.compile_shim(tmp_path / shim_build.SONAME, OLD)
    conf = write_conf(tmp_path / "nvml.conf", facts(), OLD)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("B200_LAB_NVML_CONF", str(conf))
    return library


def test_worker_names_what_an_old_driver_does_not_offer(old_driver: Path) -> None:
    assert not hasattr(ctypes.CDLL(str(old_driver)), "nvmlDeviceGetRepairStatus")
    reading = Worker(20.0).result()
    assert_message(reading["gpus"][0]["repair"]["unmeasured"])
    for gpu in reading["gpus"]:
        assert gpu["repair"] == gpu["fabric"]["health_summary"] == reading["gpus"][0]["repair"]
        assert (gpu["fabric"]["state"], gpu["fabric"]["health_mask"]) == (3, 0x80)
    assert str(reading).count("unmeasured") == 2 * len(reading["gpus"])


def test_node_with_an_old_driver_is_fit_and_what_is_not_judged_is_named(old_driver: Path) -> None:
    state = states.healthy()
    for gpu, read in zip(state["gpus"], Worker(20.0).result()["gpus"], strict=True):
        gpu.update(repair=read["repair"], fabric=read["fabric"], gsp_firmware=OLD)
    state["nvml"].update(driver_version=OLD, nvml_version=f"12.{OLD}")
    state["modules"].update(nvidia=OLD, nvidia_uvm=OLD)
    for name in ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"):
        state["packages"][name]["version"] = f"{OLD}-1"
    verdict = judge({**states.expectation(), "driver": None}, state)
    assert verdict.fit == "fit", [finding.summary for finding in verdict.blocking]
    assert_message("\n".join(finding.summary for finding in verdict.findings if finding.action))
