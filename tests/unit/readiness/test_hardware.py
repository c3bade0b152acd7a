"""A machine that is not the inventory's is not touched; the gate judges a deployed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from b200kit.node.state.verdict import Status
from b200kit.operations import readiness, steps
from b200kit.readiness.checks import DECIDE
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.nodes import bare, look, settled

H100 = {"vendor": "10de", "device": "2330"}


def without(machine: Machine, *places: int, **other: Any) -> None:
    """Take GPUs off a machine's bus, or make others of them."""
    gpus = machine.hardware["pci"]["gpus"]
    kept = [gpu for place, gpu in enumerate(gpus) if place not in places]
    machine.hardware["pci"]["gpus"] = [gpu | other for gpu in kept]


CHANGES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "no GPU": (tuple(range(8)), {}),
    "seven": ((4,), {}),
    "others": ((), H100),
}


@in_subtests("case", CHANGES)
def test_other_machine_is_refused_by_one_line_and_nothing_is_touched(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node, machine = bare(tmp_path)
    places, other = CHANGES[case]
    without(machine, *places, **other)
    look(node)
    machine.log.clear()
    capsys.readouterr()
    readiness.require(node, steps.observed)
    assert (node.record.outcome, node.record.stage) == ("failed", "ready")
    assert machine.log == []
    [line] = capsys.readouterr().err.splitlines()
    assert_message(line)


def test_every_gpu_of_the_hardware_is_taken(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    verdict = readiness.judged(node, steps.observed)
    [found] = [finding for finding in verdict.findings if finding.check == "ready.gpus"]
    assert found.status is Status.PASS


@in_subtests(("case", "judged"), [("no GPU", True), ("seven", True), ("others", False)])
def test_gate_judges_what_a_deployed_node_lost_but_no_other_machine(
    case: str, judged: bool, tmp_path: Path
) -> None:
    node, machine = settled(tmp_path)
    places, other = CHANGES[case]
    without(machine, *places, **other)
    look(node)
    readiness.require(node, steps.observed)
    assert (node.record.outcome is None) is judged


def test_bus_that_was_not_read_is_no_machine_to_work_on(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.hardware["pci"]["gpus"] = {"unmeasured": "OSError: no"}
    look(node)
    verdict = readiness.judged(node, steps.observed)
    assert verdict.fit == "unmeasured"
    assert {finding.check for finding in verdict.findings} == set(DECIDE)
