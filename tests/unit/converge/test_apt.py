"""What an earlier installation left: finished where no installation would, refused where unsafe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.converge import apt
from b200kit.node.state.drift import Package
from b200kit.run.node import StageFailed
from tests.fake.machine import Machine
from tests.messages import raises_message
from tests.unit.nodes import bare, look, make, planned, settled

HALF = {"nvidia-kernel-open-dkms": "iF"}
FOREIGN = {"postgresql": "iU"}


def spoiled(machine: Machine, interrupted: bool, broken: Any) -> None:
    """What dpkg left on the machine."""
    machine.readings["dpkg"] = {"interrupted": interrupted, "broken": broken}


@pytest.mark.parametrize(
    ("interrupted", "broken", "host", "driver"),
    [
        (False, {}, [], []),
        (True, {}, ["finish what dpkg left: an interrupted dpkg"], []),
        (
            True,
            HALF,
            ["finish what dpkg left: nvidia-kernel-open-dkms (iF)"],
            ["configure nvidia-kernel-open-dkms"],
        ),
        (False, HALF, [], ["configure nvidia-kernel-open-dkms"]),
        (False, {"numactl": "iW"}, [], ["configure numactl"]),
        (False, FOREIGN, [], []),
        (False, {"unmeasured": "dpkg-query is not there"}, [], []),
        ({"unmeasured": "no such file"}, {}, [], []),
    ],
)
def test_what_dpkg_left_leads_to_its_change(
    tmp_path: Path, interrupted: Any, broken: Any, host: list[str], driver: list[str]
) -> None:
    node, machine = settled(tmp_path)
    spoiled(machine, interrupted, broken)
    look(node)
    assert planned(node, "host") == host
    assert planned(node, "driver") == driver


def test_what_is_finished_leaves_nothing_to_do(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    spoiled(machine, True, HALF)
    look(node)
    make(node, "host")
    assert len(machine.ran("packages finish")) == 1
    assert planned(node, "host") == planned(node, "driver") == []


def test_installation_configures_what_is_left_so_that_nothing_is_built_twice(
    tmp_path: Path,
) -> None:
    node, machine = settled(tmp_path)
    spoiled(machine, False, HALF)
    machine.packages["nvlsm"]["status"] = "iU"
    look(node)
    assert [change for change in planned(node, "driver") if "configure" in change] == []


def test_lock_is_waited_for_within_half_of_what_a_command_may_take(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, stage_timeout_s=90)
    make(node, "host")
    assert len(machine.ran('packages install .*"wait_s": 45')) == 1


def test_full_boot_is_refused_before_any_command(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.readings["boot"] = {"own_file_system": True, "largest_initramfs_bytes": 60_000_000}
    machine.readings["disks"] = {"/boot": {"total_bytes": 10**9, "free_bytes": 50_000_000}}
    look(node)
    machine.log.clear()
    with raises_message(StageFailed):
        apt.install(node, [Package("nvidia-open", "580.105.08")])
    assert machine.log == []
    apt.install(node, [Package("numactl")])
    assert len(machine.log) == 1
