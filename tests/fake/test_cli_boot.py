"""Reboots by the real CLI: one a run, none that would not help, none again for nothing."""

from __future__ import annotations

import pytest

from tests.fake.fleet import Fleet, Outcome
from tests.fake.machine import KERNEL, Machine
from tests.messages import TIME, assert_message

NEWER = "6.8.0-45-generic"
REJECTED = "Failed to insert module 'nvidia': Key was rejected by service"
REBOOT = "systemctl reboot"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A sound node, one whose next kernel has no module, and one whose kernel refuses it."""
    fleet = Fleet(tmp_path_factory.mktemp("fleet") / "site")
    fleet.add("sound")
    unbuilt, rejected = fleet.add("unbuilt"), fleet.add("rejected")
    unbuilt.readings["driver_module"] = {
        "running_kernel": KERNEL,
        "built_for": {KERNEL: "580.105.08", NEWER: None},
        "default_kernel": NEWER,
    }
    rejected.refuses_driver, rejected.kernel_log = True, [REJECTED]
    for machine in (unbuilt, rejected):
        machine.save()
    return fleet


@pytest.fixture(scope="module")
def first(fleet: Fleet) -> Outcome:
    """The first run."""
    return fleet.run("b200.py")


@pytest.fixture(scope="module")
def second(fleet: Fleet, first: Outcome) -> Outcome:
    """The same again; nobody repaired anything."""
    assert first.code == 1
    return fleet.run("b200.py")


def reboots(machine: Machine) -> int:
    """How often a machine rebooted."""
    return len(machine.ran(REBOOT))


def test_sound_node_is_rebooted_once_and_lives(fleet: Fleet, first: Outcome) -> None:
    assert first.outcomes["sound"] == "live", first.described("sound")
    assert reboots(fleet.machine("sound")) == 1


def test_node_is_not_rebooted_into_a_kernel_without_a_driver(fleet: Fleet, first: Outcome) -> None:
    assert_message(first.described("unbuilt"))
    assert reboots(fleet.machine("unbuilt")) == 0


def test_driver_that_the_kernel_refuses_is_told_at_the_reboot(first: Outcome) -> None:
    assert_message(first.described("rejected"))


def test_second_run_reboots_nobody(fleet: Fleet, second: Outcome) -> None:
    assert second.outcomes == {"sound": "live", "unbuilt": "failed", "rejected": "failed"}
    assert second.hosts["sound"]["changes"] == 0
    assert [reboots(fleet.machine(name)) for name in fleet.names] == [1, 0, 1]
    assert_message(second.described("rejected"), TIME=TIME)


@pytest.mark.process
def test_mended_nodes_are_rebooted_once_more(fleet: Fleet, second: Outcome) -> None:
    assert second.code == 1
    for name in ("unbuilt", "rejected"):
        machine = fleet.machine(name)
        machine.refuses_driver = False
        built = {KERNEL: "580.105.08", NEWER: "580.105.08"}
        machine.readings["driver_module"] = {
            "running_kernel": KERNEL,
            "built_for": built,
            "default_kernel": NEWER,
        }
        machine.save()
    third = fleet.run("b200.py")
    assert third.code == 0, third.stderr[-3000:]
    assert [reboots(fleet.machine(name)) for name in fleet.names] == [1, 1, 2]
