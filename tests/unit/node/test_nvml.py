"""NVML through the real nvidia-ml-py: readings, errors as readings, and calls that never return."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from deploy.node import nvml_gpu, nvml_worker
from deploy.node.nvml import Worker
from tests.unit import states
from tests.unit.node.conftest import Nvml

KEYS = set(states.healthy()["gpus"][0])


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
    assert read()["gpus"] == {"unmeasured": "NVML Shared Library Not Found (12)"}


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
    reading = read(timeout=1.0)
    hung = reading["gpus"][3]
    assert hung["serial"]
    assert hung["vbios"] == {"unmeasured": "NVML did not answer within 1 s (vbios)"}
    assert hung["links"] == hung["vbios"]
    assert reading["gpus"][2]["links"][17]["state"] == 1
    assert "unmeasured" in reading["p2p"]


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount_v2"])
def test_call_that_hangs_before_any_gpu_is_told(nvml: Nvml, call: str) -> None:
    nvml(lines=f"hang.{call}=1")
    assert "did not answer within 0.5 s" in read(timeout=0.5)["gpus"]["unmeasured"]


def test_worker_that_ends_without_a_word_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.node.nvml.LAUNCH", "import sys; sys.exit('broken')")
    assert read()["nvml"] == {"unmeasured": "the NVML reader failed: broken"}


def test_worker_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.node.nvml.LAUNCH", "import time; time.sleep(60)")
    monkeypatch.setattr("deploy.node.nvml.GRACE_S", 0.1)
    worker = Worker(0.1)
    assert "did not answer" in worker.result()["nvml"]["unmeasured"]
    assert worker.process.wait(timeout=30) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("bus", "address"),
    [("00000000:8F:00.0", "0000:8f:00.0"), (b"00000008:01:00.0", "0008:01:00.0")],
)
def test_bus_id_is_written_as_sysfs_does(bus: str | bytes, address: str) -> None:
    assert nvml_gpu.sysfs_address(bus) == address


def test_capability_indexes_are_plain_numbers() -> None:
    assert list(nvml_worker.P2P_KINDS.values()) == [0, 1, 2]
