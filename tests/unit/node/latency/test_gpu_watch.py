"""The GPUs while a load runs, through the real nvidia-ml-py in the real child process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.smoke_result import Extent
from b200kit.node.latency import gpu_watch
from b200kit.node.latency.gpu_sampler import KEYS, Sample, during
from b200kit.node.latency.gpu_watch import GpuWatch
from b200kit.node.lib import program
from b200kit.node.state.view import Unmeasured
from tests.messages import assert_message
from tests.unit.node.conftest import Nvml

SEEN = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
from b200kit.node.latency import gpu_sampler

class Noted(list):
    def __init__(self, index):
        self.index = index
    def append(self, sample):
        super().append(sample)
        os.write(seen, b"%d " % self.index)

class Sampler(gpu_sampler.Sampler):
    def watch(self, index):
        self.samples[index] = Noted(index)
        super().watch(index)

seen = os.open({seen!r}, os.O_WRONLY | os.O_APPEND)
gpu_sampler.Sampler = Sampler
# However seldom this machine lets it read: that is judged over recorded times.
gpu_sampler.MOST_SILENT_S = 3600.0
sys.exit(gpu_sampler.main([]))
"""
"""The child, which also writes down the index of the GPU at each reading."""


@pytest.fixture(autouse=True)
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the child writes that; and limits that only a process that hangs meets."""
    for limit in ("READY_S", "ANSWER_S", "GONE_S"):
        monkeypatch.setattr(gpu_watch, limit, 300.0)
    path = tmp_path / "seen"
    path.touch()
    monkeypatch.setattr(program, "LAUNCH", SEEN.format(seen=str(path)))
    return path


def watched(seen: Path, gpus: Iterable[int] = range(8)) -> Any:
    """What a load in which each of these GPUs was read has to say of all."""
    with GpuWatch() as watch:
        watch.begin()
        before, end = Counter(seen.read_text().split()), time.monotonic() + 300
        # The first of them may have been taken before, and written down since.
        while min(Counter(seen.read_text().split())[i] - before[i] for i in map(str, gpus)) < 2:
            assert watch.process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        return watch.end()


def test_every_gpu_has_the_range_of_each_reading(nvml: Nvml, seen: Path) -> None:
    nvml()
    found = watched(seen)
    assert [gpu.index for gpu in found] == list(range(8))
    for gpu in found:
        assert gpu.samples >= 1
        assert 0 < gpu.sm_clock_mhz.min <= gpu.sm_clock_mhz.max
        assert isinstance(gpu.power_usage_mw, Extent)
        assert isinstance(gpu.clocks_event_reasons, int)
    assert "unmeasured" not in str(found)


def test_without_nvml_the_reading_is_unmeasured_at_once(no_nvml: None) -> None:
    with GpuWatch() as watch:
        began = time.monotonic()
        watch.begin()
        assert watch.begun - began < gpu_watch.READY_S
        assert isinstance(watch.end(), Unmeasured)


def test_a_call_that_never_returns_costs_its_own_gpu_alone(
    nvml: Nvml, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml(lines="gpu.3.hang.nvmlDeviceGetPowerUsage=1")
    monkeypatch.setattr(gpu_watch, "READY_S", 0.1)
    others = [index for index in range(8) if index != 3]
    found = watched(seen, others)
    assert "gave no reading" in found[3].power_usage_mw.reason
    assert all("unmeasured" not in str(found[index]) for index in others)


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
    return Sample(at, dict(zip(KEYS, (clock, 500_000, 60, reasons), strict=True)))


def test_a_slowdown_of_a_moment_is_kept() -> None:
    found = during(0, [sample(1.0), sample(2.0, 900, 0x40), sample(3.0, reasons=0x4)], 0.5, 3.5)
    assert found.clocks_event_reasons == 0x44
    assert found.sm_clock_mhz == Extent(900, 1900, 1900)


def test_what_was_read_outside_the_load_does_not_count() -> None:
    found = during(0, [sample(0.1, 300), sample(1.0), sample(9.0, 300)], 0.5, 1.5)
    assert (found.samples, found.sm_clock_mhz) == (1, Extent(1900, 1900, 1900))


def test_one_failed_reading_makes_its_key_unmeasured_and_no_other() -> None:
    seen = [sample(1.0), sample(2.0, reasons={"unmeasured": "GPU is lost (15)"})]
    found = during(0, seen, 0.5, 2.5)
    assert_message(str(found.clocks_event_reasons))
    assert found.temperature_c == Extent(60, 60, 60)


@pytest.mark.parametrize("times", [(), (1.0,), (1.0, 4.1, 5.0)])
def test_a_time_in_which_nothing_was_read_is_unmeasured(times: tuple[float, ...]) -> None:
    found = during(0, [sample(at) for at in times], 0.5, 5.0)
    assert_message(*sorted({str(getattr(found, key)) for key in KEYS}))
