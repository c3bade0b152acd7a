"""NVML through the real nvidia-ml-py: readings, errors as readings, and calls that never return."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

import pynvml  # type: ignore[import-untyped]
import pytest

from b200kit.node.facts.nvml import call as nvml_call
from b200kit.node.facts.nvml import gpu as nvml_gpu
from b200kit.node.facts.nvml import worker as nvml_worker
from b200kit.node.facts.nvml.client import Worker
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.node.conftest import Nvml

KEYS = set(states.healthy()["gpus"][0])


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this machine takes to start the worker, whose own time begins after that."""
    monkeypatch.setattr("b200kit.node.facts.nvml.client.GRACE_S", 300.0)


def read(timeout: float = 20.0) -> dict[str, Any]:
    """NVML's part of the state, by the worker process as on a node."""
    return Worker(timeout).result()


def test_healthy_node_is_read_in_full(nvml: Nvml) -> None:
    nvml()
    reading = read()
    assert reading["nvml"]["driver_version"] == "580.126.20"
    assert reading["nvml"]["cuda_driver_version"] == "13.0"
    assert [gpu["index"] for gpu in reading["gpus"]] == list(range(8))
    assert all(set(gpu) == KEYS for gpu in reading["gpus"])
    assert "unmeasured" not in str(reading)


def test_a_reading_that_is_left_out_is_not_asked_for(nvml: Nvml) -> None:
    nvml()
    gpus = Worker(20.0, ["inforom_valid"]).result()["gpus"]
    assert all(set(gpu) == KEYS - {"inforom_valid"} for gpu in gpus)


def test_readings_have_the_types_and_units_of_the_state(nvml: Nvml) -> None:
    nvml()
    gpu, recorded = read()["gpus"][0], states.healthy()["gpus"][0]
    assert {k: type(v) for k, v in gpu.items()} == {k: type(v) for k, v in recorded.items()}
    for key in ("memory_total_mib", "bar1_total_mib", "power_limit_mw", "device_id", "fabric"):
        assert gpu[key] == recorded[key]
    assert gpu["pci_address"] == gpu["pci_address"].lower()
    assert gpu["links"] == recorded["links"]


def test_peer_access_is_a_matrix_without_a_diagonal(nvml: Nvml) -> None:
    nvml()
    for matrix in read()["p2p"].values():
        assert [row[i] for i, row in enumerate(matrix)] == [None] * 8
        assert sum(status == 0 for row in matrix for status in row) == 56


def test_module_ids_are_each_gpus_own_though_read_side_by_side(nvml: Nvml) -> None:
    nvml()
    assert sorted(gpu["module_id"] for gpu in read()["gpus"]) == list(range(1, 9))


def test_gpu_without_nvlink_has_its_links_listed_as_down(nvml: Nvml) -> None:
    nvml("gpu2-no-nvlink")
    reading = read()
    assert [link["state"] for link in reading["gpus"][2]["links"]] == [0] * 18
    assert 0 not in [status for status in reading["p2p"]["nvlink"][2] if status is not None]


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [(None, "Driver Not Loaded (9)"), ("580.95.05", "RM has detected an NVML/RM version mismatch")],
)
def test_driver_that_is_not_there_or_another_is_the_reason_everywhere(
    nvml: Nvml, kernel: str | None, reason: str
) -> None:
    nvml(kernel=kernel)
    reading = read()
    for key in ("nvml", "gpus", "p2p"):
        assert reading[key]["unmeasured"].startswith(reason)


@pytest.mark.usefixtures("no_nvml")
def test_no_library_is_the_reason_everywhere() -> None:
    assert_message(read()["gpus"]["unmeasured"])


def test_lost_gpu_is_unmeasured_and_the_others_are_read(nvml: Nvml) -> None:
    nvml(lines="gpu.5.lost=1")
    reading = read()
    assert reading["gpus"][5]["uuid"] == {"unmeasured": "GPU is lost (15)"}
    assert set(reading["gpus"][5]) == KEYS
    assert reading["gpus"][4]["fabric"]["state"] == 3
    assert reading["p2p"]["read"][0][5] == {"unmeasured": "GPU is lost (15)"}
    assert reading["p2p"]["read"][0][4] == 0


def test_single_reading_that_fails_costs_only_itself(nvml: Nvml) -> None:
    nvml(lines="gpu.1.vbios=!999\ngpu.1.field.230=!3")
    gpu = read()["gpus"][1]
    assert gpu["vbios"]["unmeasured"].endswith("(999)")
    assert gpu["recovery_action"] == {"unmeasured": "Not Supported (3)"}
    assert gpu["inforom"] == "G525.0220.00.03"


def test_call_that_hangs_costs_its_timeout_and_only_its_gpu(nvml: Nvml) -> None:
    nvml(lines="gpu.3.hang.nvmlDeviceGetVbiosVersion=1")
    reading = read(timeout=4.0)
    hung = reading["gpus"][3]
    assert hung["serial"]
    assert_message(hung["vbios"]["unmeasured"])
    assert hung["links"] == hung["vbios"]
    assert reading["gpus"][2]["links"][17]["state"] == 1
    assert "unmeasured" in reading["p2p"]


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount_v2"])
def test_call_that_hangs_before_any_gpu_is_reported(nvml: Nvml, call: str) -> None:
    nvml(lines=f"hang.{call}=1")
    assert_message(read(timeout=2.0)["gpus"]["unmeasured"])


def test_worker_that_ends_without_a_word_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("b200kit.node.lib.program.LAUNCH", "import sys; sys.exit('broken')")
    assert_message(read()["nvml"]["unmeasured"])


def test_worker_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("b200kit.node.lib.program.LAUNCH", "import time; time.sleep(60)")
    monkeypatch.setattr("b200kit.node.facts.nvml.client.GRACE_S", 0.1)
    worker = Worker(0.1)
    assert "did not answer" in worker.result()["nvml"]["unmeasured"]
    assert worker.process.wait(timeout=300) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("bus", "address"),
    [("00000000:8F:00.0", "0000:8f:00.0"), (b"00000008:01:00.0", "0008:01:00.0")],
)
def test_bus_id_is_written_as_sysfs_does(bus: str | bytes, address: str) -> None:
    assert nvml_gpu.sysfs_address(bus) == address


def test_capability_indexes_are_plain_numbers() -> None:
    assert list(nvml_worker.P2P_KINDS.values()) == [0, 1, 2, 3, 4]


READINGS = {
    "power_enforced_mw": ("power.enforced_mw=700000", 700000),
    "power_default_mw": ("power.default_mw=900000", 900000),
    "power_max_mw": ("power.max_mw=800000", 800000),
    "temperature_margin_c": ("temperature.margin_c=-4", -4),
    "slowdown_margin_c": ("field.194=-5", -5),
    "memory_temperature_c": ("field.82=95", 95),
    "gsp_enabled": ("gsp_enabled=0", False),
    "inforom_valid": ("inforom_valid=0", False),
    "ecc_pending": ("ecc.pending=0", False),
    "mig_pending": ("mig_pending=1", True),
}


@pytest.mark.parametrize("key", READINGS)
def test_reading_is_what_nvml_says_and_no_neighbours(nvml: Nvml, key: str) -> None:
    line, said = READINGS[key]
    nvml(lines=f"gpu.6.{line}")
    gpus = read()["gpus"]
    changed = {k for k, v in gpus[6].items() if v != gpus[5][k]} - OWN
    assert (gpus[6][key], changed) == (said, {key})


OWN = {"index", "uuid", "serial", "pci_address", "module_id", "minor"}


def test_sram_errors_are_summed_over_parity_and_sec_ded(nvml: Nvml) -> None:
    counts = {"volatile_parity": 1, "volatile_secded": 2, "aggregate_parity": 4}
    counts |= {"aggregate_secded": 8, "threshold_exceeded": 1}
    nvml(lines="\n".join(f"gpu.2.sram.{key}={count}" for key, count in counts.items()))
    assert read()["gpus"][2]["sram"] == {
        "volatile_uncorrected": 3,
        "aggregate_uncorrected": 12,
        "threshold_exceeded": True,
    }


def test_repairs_and_spare_rows_are_told_one_by_one(nvml: Nvml) -> None:
    nvml(lines="gpu.2.repair.tpc_pending=1\ngpu.2.remap.banks.low=7\ngpu.3.remap.banks.max=!3")
    gpus = read()["gpus"]
    assert gpus[2]["repair"] == {"channel_pending": False, "tpc_pending": True}
    assert gpus[2]["remap"]["banks"] == {"max": 3840, "high": 0, "partial": 0, "low": 7, "none": 0}
    assert gpus[3]["remap"]["banks"] == {"unmeasured": "Not Supported (3)"}
    assert gpus[3]["remap"]["failure"] is False


def test_every_field_of_a_link_is_its_own(nvml: Nvml) -> None:
    numbers = [*nvml_gpu.FIELDS.values(), *nvml_gpu.FEC_HISTORY]
    nvml(lines="\n".join(f"gpu.1.field.{number}.4={1000 + number}" for number in numbers))
    links = read()["gpus"][1]["links"]
    for key, number in nvml_gpu.FIELDS.items():
        assert links[4][key] == 1000 + number
    assert links[4]["fec_history"] == [1000 + number for number in nvml_gpu.FEC_HISTORY]
    assert links[3]["fec_history"] == [0] * 16
    assert links[3]["effective_ber"] == 0xFFF


def test_fields_of_a_link_fail_one_by_one(nvml: Nvml) -> None:
    nvml(lines="gpu.1.field.220.4=!3\ngpu.1.field.236.4=!10\ngpu.1.links.4.remote_type=!4")
    link = read()["gpus"][1]["links"][4]
    unmeasured = {key for key, value in link.items() if "unmeasured" in str(value)}
    assert unmeasured == {"effective_ber", "fec_history", "remote_type"}
    assert link["fec_history"][:3] == [0, {"unmeasured": "Timeout (10)"}, 0]


def test_link_fields_of_blackwell_are_asked_by_the_ids_of_nvidia_ml_py() -> None:
    first = pynvml.NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_0
    last = pynvml.NVML_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15
    assert list(nvml_gpu.FEC_HISTORY) == list(range(first, last + 1))
    assert nvml_gpu.FIELDS["speed_mbps"] == pynvml.NVML_FI_DEV_NVLINK_GET_SPEED
    assert nvml_gpu.FIELD_RECOVERY_ACTION == pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    assert nvml_gpu.FIELD_MEMORY_TEMPERATURE == pynvml.NVML_FI_DEV_MEMORY_TEMP
    assert nvml_gpu.FIELD_SLOWDOWN_MARGIN == pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT
    assert not {161, 162, 163} & set(nvml_gpu.FIELDS.values())


def test_all_fields_of_a_link_are_asked_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[tuple[int, int]]] = []

    def refuse(_: object, count: ctypes.c_int, items: Any) -> int:
        kind = pynvml.c_nvmlFieldValue_t * count.value
        asked.append([(item.fieldId, item.scopeId) for item in kind.from_buffer(items)])
        return int(pynvml.NVML_ERROR_GPU_IS_LOST)

    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", lambda _: refuse)
    details = nvml_gpu.link_details(None, 3)
    assert [len(ids) for ids in asked] == [len(nvml_gpu.FIELDS) + 16]
    assert asked[0][0] == (nvml_gpu.FIELDS["speed_mbps"], 3)
    assert {link for _, link in asked[0]} == {3}
    assert details["fec_history"] == [{"unmeasured": "GPU is lost (15)"}] * 16


def test_field_of_an_unknown_value_type_is_not_read() -> None:
    item = pynvml.c_nvmlFieldValue_t(nvmlReturn=0, valueType=77)
    (found,) = nvml_call.item_values(bytes(item))
    assert_message(found["unmeasured"])


MEMBERS = {
    "DOUBLE": "dVal",
    "UNSIGNED_INT": "uiVal",
    "UNSIGNED_LONG": "ulVal",
    "UNSIGNED_LONG_LONG": "ullVal",
    "SIGNED_LONG_LONG": "sllVal",
    "SIGNED_INT": "siVal",
    "UNSIGNED_SHORT": "usVal",
}


@in_subtests("kind", MEMBERS)
def test_value_is_taken_from_the_member_of_its_type(kind: str) -> None:
    number = 2.5 if kind == "DOUBLE" else -3 if kind.startswith("SIGNED") else 42
    value = pynvml.c_nvmlValue_t(**{MEMBERS[kind]: number})
    code = getattr(pynvml, f"NVML_VALUE_TYPE_{kind}")
    item = pynvml.c_nvmlFieldValue_t(nvmlReturn=0, valueType=code, value=value)
    assert nvml_call.item_values(bytes(item)) == [number]


def test_every_value_type_of_nvidia_ml_py_is_known() -> None:
    assert len(nvml_call.VALUES) == pynvml.NVML_VALUE_TYPE_COUNT


def test_margin_that_a_driver_gives_unsigned_is_still_below_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml_gpu, "field", lambda *_: ctypes.c_uint(-3).value)
    assert nvml_gpu.slowdown_margin(None) == -3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", False),
        ("confidential_compute=1", True),
        ("refuse.nvmlSystemGetConfComputeState=3", False),
        ("refuse.nvmlSystemGetConfComputeState=4", {"unmeasured": "Insufficient Permissions (4)"}),
    ],
)
def test_confidential_computing_is_off_where_it_cannot_be_on(
    nvml: Nvml, line: str, said: object
) -> None:
    nvml(lines=line)
    assert read()["nvml"]["confidential_compute"] == said


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (3, "Not Supported (3)"),
        (4, "Insufficient Permissions (4)"),
        (15, "GPU is lost (15)"),
        (16, "GPU requires restart (16)"),
    ],
)
def test_inforom_that_could_not_be_checked_is_not_corrupt(
    nvml: Nvml, code: int, reason: str
) -> None:
    nvml(lines=f"gpu.0.refuse.nvmlDeviceValidateInforom={code}")
    assert read()["gpus"][0]["inforom_valid"] == {"unmeasured": reason}


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        ("nvmlDeviceGetSramEccErrorStatus", {"sram"}),
        ("nvmlDeviceGetRepairStatus", {"repair"}),
        ("nvmlDeviceGetRowRemapperHistogram", {"remap"}),
        ("nvmlDeviceGetGspFirmwareMode", {"gsp_enabled"}),
        ("nvmlDeviceGetMarginTemperature", {"temperature_margin_c"}),
        ("nvmlDeviceGetEnforcedPowerLimit", {"power_enforced_mw"}),
        ("nvmlDeviceGetNvLinkRemoteDeviceType", {"links"}),
        (
            "nvmlDeviceGetFieldValues",
            {"recovery_action", "slowdown_margin_c", "memory_temperature_c", "links"},
        ),
    ],
)
def test_call_that_is_refused_costs_only_what_it_reads(
    nvml: Nvml, function: str, keys: set[str]
) -> None:
    nvml(lines=f"gpu.4.refuse.{function}=16")
    gpus = read()["gpus"]
    refused = {key for key, value in gpus[4].items() if "GPU requires restart (16)" in str(value)}
    assert refused == keys
    assert "unmeasured" not in str(gpus[3])


HANGING = {
    "nvmlDeviceGetEnforcedPowerLimit": "power_enforced_mw",
    "nvmlDeviceGetMarginTemperature": "temperature_margin_c",
    "nvmlDeviceGetSramEccErrorStatus": "sram",
    "nvmlDeviceGetRowRemapperHistogram": "remap",
    "nvmlDeviceGetRepairStatus": "repair",
    "nvmlDeviceValidateInforom": "inforom_valid",
    "nvmlDeviceGetNvLinkRemoteDeviceType": "links",
}


def test_call_that_hangs_is_named_and_costs_only_its_gpu(nvml: Nvml) -> None:
    nvml(lines="\n".join(f"gpu.{gpu}.hang.{call}=1" for gpu, call in enumerate(HANGING)))
    reading = read(timeout=5.0)
    for gpu, key in zip(reading["gpus"], HANGING.values(), strict=False):
        assert_message(gpu[key]["unmeasured"])
        assert gpu["memory_total_mib"] == 183359
    assert "unmeasured" not in str(reading["gpus"][7])
    assert set(reading["nvml"]) == set(nvml_worker.SYSTEM_KEYS)


def test_confidential_computing_that_hangs_costs_only_itself(nvml: Nvml) -> None:
    nvml(lines="hang.nvmlSystemGetConfComputeState=1")
    reading = read(timeout=5.0)
    said = "NVML did not answer within 5 s (waiting for the confidential computing state)"
    assert reading["nvml"]["confidential_compute"] == {"unmeasured": said}
    assert "unmeasured" not in str([reading["gpus"], reading["p2p"]])


def test_one_pair_without_p2p_is_told_both_ways_and_no_other(nvml: Nvml) -> None:
    nvml("one-pair-no-p2p")
    for matrix in read()["p2p"].values():
        assert [matrix[1][4], matrix[4][1]] == [5, 5]
        assert sum(status == 0 for row in matrix for status in row) == 54
