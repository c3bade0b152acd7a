"""The fabric stage: slices until done or stuck, one line for the stuck, then the gate's refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.state.mend import MANAGER
from b200kit.operations import steps
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.stages import containers, fabric, gate, pipeline
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.unit.nodes import look, make, planned, settled

NEVER_RAN = {"active": "failed", "invocation_id": ""}
"""A unit in a boot in which it never ran, so that no GPU can be registered with it."""


def stuck(node: Node) -> str:
    """What the stage says of a node that it cannot bring up."""
    [change] = fabric.plan(node)
    message = change.apply(node)
    assert message is not None
    assert node.fabric_error == message
    look(node)
    return message


def test_node_that_is_up_costs_no_command(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    assert planned(node, "fabric") == []
    assert machine.log == []


def test_both_daemons_are_started_by_the_node_program_alone(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    for unit in (MANAGER, "nvidia-persistenced.service"):
        machine.units[unit] |= NEVER_RAN
    look(node)
    machine.log.clear()
    [change] = fabric.plan(node)
    detail = change.apply(node)
    assert_message(detail)
    assert machine.ran("systemctl") == []
    assert len(machine.ran("bring-up")) == 1
    assert node.fabric_error is None
    assert machine.is_active(MANAGER)


def test_fabric_manager_that_gpus_outlived_is_started_beside_nothing(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.units[MANAGER]["active"] = "failed"
    look(node)
    machine.log.clear()
    stop, renew, _ = fabric.plan(node)
    assert "vllm@0.service" in stop.ends
    stop.apply(node)
    renew.apply(node)
    stopped, reset = machine.ran("systemctl stop|gpu-daemons")
    assert ("vllm@0.service" in stopped, "gpu-daemons reset" in reset) == (True, True)
    ended = (node.record.state or {})["units"][MANAGER]["invocation_id"]
    assert f"after-{ended}" in reset


@pytest.mark.parametrize(
    "change", [{"load": "masked"}, {"invocation_id": ""}, {"active": "activating"}]
)
def test_no_gpu_is_reset_for_a_fabric_manager_that_nobody_is_to_start_again(
    tmp_path: Path, change: dict[str, str]
) -> None:
    node, machine = settled(tmp_path)
    machine.units[MANAGER] |= {"active": "failed", **change}
    look(node)
    assert "reset" not in " ".join(planned(node, "fabric"))


def test_no_file_has_the_fabric_manager_restarted(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    files = [f for stage in pipeline.stages() for f in stage.desired(node, node.layout()).files]
    assert [file.path for file in files if f"restart:{MANAGER}" in file.notify] == []


def test_unit_that_would_not_start_at_boot_is_enabled_first(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.units[MANAGER]["enabled"] = "disabled"
    look(node)
    assert_message(*planned(node, "fabric"))


def test_unit_that_somebody_masked_is_not_enabled(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.units[MANAGER] |= {"enabled": "masked", "load": "masked", "active": "inactive"}
    look(node)
    assert planned(node, "driver") == []
    assert_message(*planned(node, "fabric"))
    assert_message(stuck(node))


# What is wrong with a machine, the state in which it is stuck, and what names it.
FAULTS: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "gpus on the bus": (("pci", "gpus"), [], "0 of 8 GPUs are on the PCI bus"),
    "ib_umad": (("modules", "ib_umad"), None, "ib_umad is not loaded"),
    "management port": (("pci", "nics"), [], "no InfiniBand device is there"),
    "subnet manager": (("fabric_manager", "nvlsm_running"), False, "nvlsm does not run"),
    "registration": (("gpus", 5, "fabric", "state"), 2, "registration: in progress"),
    "peers": (("p2p", "read"), [[None, 5], [5, None]], "P2P read"),
}


def spoil(machine: Machine, keys: tuple[Any, ...], value: Any) -> None:
    """Change one reading of a machine's hardware."""
    at: Any = machine.hardware
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value


@pytest.mark.one_in(3)
@pytest.mark.parametrize("state", FAULTS)
def test_stuck_node_is_told_by_state_cause_and_remedy_as_the_gate_does(
    tmp_path: Path, state: str
) -> None:
    node, machine = settled(tmp_path)
    keys, value, says = FAULTS[state]
    spoil(machine, keys, value)
    look(node)
    machine.log.clear()
    message = stuck(node)
    assert message.startswith(f"stuck at {state}: ")
    assert says in message
    assert " -> " in message
    first = judge(gate.expectation(node) | {"today": "2026-11-21"}, node.state).blocking[0]
    assert first.summary in message


def test_node_is_asked_a_few_times_and_not_without_end(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, fabric_deadline_s=30)
    spoil(machine, ("gpus", 5, "fabric", "state"), 2)
    look(node)
    machine.log.clear()
    stuck(node)
    asked = machine.ran("bring-up")
    assert len(asked) == 6
    assert "--slice 5.0 --deadline 30" in asked[0]


def test_progress_is_said_when_there_is_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, machine = settled(tmp_path, fabric_deadline_s=30)
    spoil(machine, ("gpus", 5, "fabric", "state"), 2)
    look(node)
    stuck(node)
    said = [line for line in capsys.readouterr().err.splitlines() if "completed" in line]
    assert_message(said[0])
    assert len(said) == 3


def test_stage_that_needs_the_fabric_waits_for_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    del machine.files["/var/run/cdi/nvidia.yaml"]
    spoil(machine, ("modules", "ib_umad"), None)
    look(node)
    stuck(node)
    assert steps._plan(node, containers.STAGE) == []
    spoil(machine, ("modules", "ib_umad"), True)
    look(node)
    assert planned(node, "fabric") == []
    assert len(steps._plan(node, containers.STAGE)) > 0


@pytest.mark.parametrize("answer", ["", "[]", "{}", "fabric: 8 completed", json.dumps("done")])
def test_answer_that_is_none_fails_its_own_node(tmp_path: Path, answer: str) -> None:
    node, machine = settled(tmp_path)
    machine.units[MANAGER] |= NEVER_RAN
    machine.answers["bring-up"] = (True, answer)
    look(node)
    [change] = fabric.plan(node)
    with raises_message(RemoteError):
        change.apply(node)


def test_module_loaded_by_hand_is_told(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    answer = {"state": "done", "moved": True, "progress": "8 of 8 GPUs completed", "line": ""}
    done = {"hidden": "management ports are unknown here", "done": [["modprobe", "ib_umad"]]}
    machine.answers["bring-up"] = (True, json.dumps(answer | done))
    machine.units[MANAGER] |= NEVER_RAN
    look(node)
    [change] = fabric.plan(node)
    assert_message(change.apply(node))


def test_second_look_at_a_stuck_node_tries_again(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    spoil(machine, ("modules", "ib_umad"), None)
    look(node)
    stuck(node)
    spoil(machine, ("modules", "ib_umad"), True)
    machine.units[MANAGER] |= NEVER_RAN
    look(node)
    make(node, "fabric")
    assert node.fabric_error is None
    assert planned(node, "fabric") == []
