"""The GPUs while a load runs, through the real nvidia-ml-py in the real child process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.latency import gpu_watch
from b200kit.node.latency.gpu_samples import KEYS, REASONS, Sample, during
from b200kit.node.latency.gpu_watch import GpuWatch
from tests.messages import assert_message
from tests.unit.node.conftest import Nvml


def watched(seconds: float = 0.3) -> Any:
    """What a load of this length has to say of the GPUs."""
    with GpuWatch() as watch:
        watch.begin()
        time.sleep(seconds)
        return watch.end()


def test_every_gpu_has_the_range_of_each_reading(nvml: Nvml) -> None:
    nvml()
    found = watched()
    assert [gpu["index"] for gpu in found] == list(range(8))
    for gpu in found:
        assert gpu["samples"] >= 1
        assert set(gpu) == {"index", "samples", *KEYS}
        assert 0 < gpu["sm_clock_mhz"]["min"] <= gpu["sm_clock_mhz"]["max"]
        assert set(gpu["power_usage_mw"]) == {"min", "median", "max"}
        assert isinstance(gpu[REASONS], int)
    assert "unmeasured" not in str(found)


def test_without_nvml_the_reading_is_unmeasured_at_once(
    no_nvml: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_watch, "READY_S", 600.0)
    began = time.monotonic()
    assert "unmeasured" in watched(0.0)
    assert time.monotonic() - began < gpu_watch.READY_S


def test_a_call_that_never_returns_costs_its_own_gpu_alone(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml(lines="gpu.3.hang.nvmlDeviceGetPowerUsage=1")
    monkeypatch.setattr(gpu_watch, "READY_S", 1.0)
    found = watched()
    assert "gave no reading" in found[3]["power_usage_mw"]["unmeasured"]
    assert all("unmeasured" not in str(gpu) for gpu in found if gpu["index"] != 3)


def test_nothing_is_left_when_the_load_never_came(nvml: Nvml) -> None:
    nvml()
    with GpuWatch() as watch:
        number = watch.process.pid
    assert not Path(f"/proc/{number}").exists()


def test_a_reader_whose_parent_died_ends(nvml: Nvml) -> None:
    nvml()
    with GpuWatch() as watch:
        assert watch.process.stdin is not None
        watch.process.stdin.close()
        assert watch.process.wait(300) == 0


def sample(at: float, clock: object = 1900, reasons: object = 0) -> Sample:
    """One look."""
    return Sample(
        at,
        {"sm_clock_mhz": clock, "power_usage_mw": 500_000, "temperature_c": 60, REASONS: reasons},
    )


def test_a_slowdown_of_a_moment_is_kept() -> None:
    found = during(0, [sample(1.0), sample(2.0, 900, 0x40), sample(3.0, reasons=0x4)], 0.5, 3.5)
    assert found[REASONS] == 0x44
    assert found["sm_clock_mhz"] == {"min": 900, "median": 1900, "max": 1900}


def test_what_was_read_outside_the_load_does_not_count() -> None:
    found = during(0, [sample(0.1, 300), sample(1.0), sample(9.0, 300)], 0.5, 1.5)
    assert (found["samples"], found["sm_clock_mhz"]) == (
        1,
        {"min": 1900, "median": 1900, "max": 1900},
    )


def test_one_failed_reading_makes_its_key_unmeasured_and_no_other() -> None:
    seen = [sample(1.0), sample(2.0, reasons={"unmeasured": "GPU is lost (15)"})]
    found = during(0, seen, 0.5, 2.5)
    assert_message(str(found[REASONS]))
    assert found["temperature_c"] == {"min": 60, "median": 60, "max": 60}


@pytest.mark.parametrize("times", [(), (1.0,), (1.0, 4.1, 5.0)])
def test_a_time_in_which_nothing_was_read_is_unmeasured(times: tuple[float, ...]) -> None:
    found = during(0, [sample(at) for at in times], 0.5, 5.0)
    assert_message(*sorted({str(found[key]) for key in KEYS}))
