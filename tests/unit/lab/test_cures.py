"""Faults of the simulator that something mends: by their cure and what is above it, not below."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.firmware.lab_firmware import cures
from tests.lab.firmware.lab_firmware.cures import Event
from tests.lab.hardware.scenario_shape import CURES
from tests.subtests import in_subtests

BEGAN = [Event("inject", 3, 100.0)]


@in_subtests("cure", CURES)
def test_fault_goes_with_its_cure_and_all_above_it(cure: str) -> None:
    change = {"boot": 1, "after_s": 0, "cured_by": cure}
    over = [e for e in CURES[:-1] if cures.is_cured(change, [*BEGAN, Event(e, 4, 101.0)])]
    assert over == ([] if cure == "nothing" else list(CURES[CURES.index(cure) : -1]))


def test_what_happened_before_a_fault_began_cures_nothing() -> None:
    change = {"boot": 3, "after_s": 30, "cured_by": "gpu-reset"}
    events = [Event("power-on", 1, 0.0), Event("reboot", 2, 10.0), Event("reboot", 3, 20.0)]
    assert not cures.is_cured(change, [*events, Event("gpu-reset", 3, 49.0)])
    assert cures.is_cured(change, [*events, Event("gpu-reset", 3, 50.0)])
    assert cures.is_cured(change, [*events, Event("reboot", 4, 60.0)])


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's disk, as far as this is about it."""
    for name in ("EVENTS", "WARM", "ACTS"):
        monkeypatch.setattr(cures, name, tmp_path / name.lower())
    monkeypatch.setattr(cures.record, "__defaults__", (tmp_path / "events",))
    monkeypatch.setattr(cures.read, "__defaults__", (tmp_path / "events",))
    return tmp_path


def test_boot_is_told_a_reboot_only_by_the_mark_of_one(disk: Path) -> None:
    assert [e.what for e in cures.at_boot(1, 1.0)] == ["power-on"]
    (disk / "warm").touch()
    assert cures.at_boot(2, 2.0)[-1].what == "reboot"
    assert cures.at_boot(3, 3.0)[-1].what == "power-cycle"
