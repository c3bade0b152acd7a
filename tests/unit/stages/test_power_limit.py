"""A site's power cap: asked for as a setting, set by a unit at every boot, judged, taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.inventory.parse import parse
from b200kit.node.checks.judge import judge
from b200kit.node.lib import timestamp
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.view import StateView
from b200kit.readiness import machine as readiness
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.stages import gate
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.nodes import bare, connected, look, make, planned, settled
from tests.unit.specs import data

UNIT = "b200-power.service"
PATH = f"/etc/systemd/system/{UNIT}"
PROOF = "read the settings back"
CAP = {"settings": {"power_limit_w": 700}}


def live(folder: Path, **changes: Any) -> tuple[Node, Machine]:
    """A node in its desired state, and the same with other settings asked for."""
    _, machine = settled(folder)
    node = connected(machine, **changes)
    look(node)
    return node, machine


def limits(machine: Machine) -> set[int]:
    """What the GPUs may draw."""
    return {gpu["power_enforced_mw"] for gpu in machine.hardware["gpus"]}


def power(node: Node) -> list[str]:
    """What the gate has against the power of the GPUs."""
    expect = {**gate.expectation(node), "today": timestamp.today()}
    return [f.summary for f in judge(expect, node.state).blocking if f.check == "power.limit"]


def test_without_the_key_there_is_no_unit(tmp_path: Path) -> None:
    node, machine = live(tmp_path)
    assert planned(node, "settings") == []
    assert PATH not in machine.files
    assert UNIT not in machine.units


def test_cap_is_set_on_a_running_node_at_once_and_once(tmp_path: Path) -> None:
    node, machine = live(tmp_path, **CAP)
    assert power(node)
    assert planned(node, "settings") == [
        f"write {PATH}",
        "daemon-reload settings",
        f"enable {UNIT}",
        PROOF,
    ]
    make(node, "settings")
    assert limits(machine) == {700000}
    assert planned(node, "settings") == []
    assert power(node) == []


def test_node_without_a_driver_gets_it_with_its_first_boot(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, **CAP)
    assert f"enable b200-acs.service, {UNIT}" in "; ".join(planned(node, "settings"))
    make(node, "settings")
    assert limits(machine) == {1000000}
    machine.packages["nvidia-open"] = {"version": f"{node.spec.driver}-1", "status": "ii"}
    machine.execute("systemd-run --on-active=1 systemctl reboot")
    look(node)
    assert limits(machine) == {700000}
    assert planned(node, "settings") == []


def test_another_cap_restarts_the_unit(tmp_path: Path) -> None:
    node, machine = live(tmp_path, **CAP)
    make(node, "settings")
    node = connected(machine, settings={"power_limit_w": 800})
    look(node)
    assert f"restart {UNIT}" in planned(node, "settings")
    make(node, "settings")
    assert limits(machine) == {800000}


def test_limit_that_somebody_raised_is_lowered_again(tmp_path: Path) -> None:
    node, machine = live(tmp_path, **CAP)
    make(node, "settings")
    machine.hardware["gpus"][2]["power_enforced_mw"] = 1000000
    look(node)
    assert planned(node, "settings") == [f"restart {UNIT}", PROOF]
    make(node, "settings")
    assert limits(machine) == {700000}


def test_cap_that_does_not_hold_is_named(tmp_path: Path) -> None:
    node, machine = live(tmp_path, **CAP)
    machine.write(PATH, b"[Service]\n")
    machine.answers[f"restart {UNIT}|start {UNIT}"] = (True, "")
    look(node)
    with raises_message(RemoteError):
        make(node, "settings")


def test_key_that_is_gone_gives_the_gpus_their_own_limit_back(tmp_path: Path) -> None:
    node, machine = live(tmp_path, **CAP)
    make(node, "settings")
    node = connected(machine)
    look(node)
    assert planned(node, "settings")[0] == f"remove {PATH}"
    make(node, "settings")
    assert limits(machine) == {1000000}
    assert planned(node, "settings") == []


@in_subtests("watts", [199, 1001, 0, -5, 700.5, "700", True])
def test_cap_that_no_gpu_of_the_hardware_takes_is_refused_by_the_inventory(watts: object) -> None:
    problems = parse(data(settings={"power_limit_w": watts}), load.load())
    assert isinstance(problems, list)
    [problem] = [p for p in problems if p.key == "settings.power_limit_w"]
    assert_message(problem.message)


def test_caps_at_the_ends_are_taken() -> None:
    for watts in (200, 1000, None):
        found = parse(data(settings={"power_limit_w": watts}), load.load())
        wrong = [p for p in found if "power" in p.key] if isinstance(found, list) else []
        assert wrong == []


@in_subtests(
    ("watts", "lowest", "highest", "refused"),
    [
        (700, 200000, 1000000, 0),
        (700, 800000, 1000000, 8),
        (900, 200000, 800000, 8),
        (700, {"unmeasured": "no"}, 1000000, 0),
        (None, 800000, 1000000, 0),
    ],
)
def test_cap_that_a_gpu_does_not_take_is_an_obstacle(
    watts: int | None, lowest: object, highest: object, refused: int
) -> None:
    state, expect = states.healthy(), states.expectation()
    for gpu in state["gpus"]:
        gpu |= {"power_min_mw": lowest, "power_max_mw": highest}
    if watts:
        expect["settings"]["power_limit_w"] = {"desired": watts, "judged_by": "power.limit"}
    found = [*readiness.limits(Expectation(expect), StateView(state))]
    assert len([finding for finding in found if finding.blocks]) == refused
    assert found


@pytest.mark.parametrize("odd", [None, "700", True, 0, -1, 10**9, {"unmeasured": "x"}])
def test_cap_of_an_odd_document_is_unmeasured(odd: object) -> None:
    expect = states.expectation()
    expect["settings"]["power_limit_w"] = {"desired": odd, "judged_by": "power.limit"}
    found = [f for f in judge(expect, states.healthy()).blocking if f.check == "power.limit"]
    assert [f.status.value for f in found] == ["unmeasured"]
