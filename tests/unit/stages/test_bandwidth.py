"""Bandwidth is measured once a boot, never beside a replica, and not where it decides nothing."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.bandwidth import tests
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import Remote
from b200kit.stages import gate, pipeline, serving
from tests.fake.machine import Machine
from tests.messages import raises_message
from tests.unit import corpus
from tests.unit.nodes import look, planned, settled

MEASURE = ["measure the bandwidth"]
GOOD = next(
    case.set["notes.bandwidth"]
    for case in corpus.corpus().cases
    if case.name == "bandwidth measured in this boot is as expected"
)


def prepared(
    folder: Path, mode: str, serves: bool = False, **note: Any
) -> tuple[Node, Machine, dict[str, Any]]:
    """A settled node with a good result of this boot, as *note* changes it."""
    node, machine = settled(folder, bandwidth=mode)
    document = deepcopy(GOOD) | {"boot_id": (node.state or {})["host"]["boot_id"]} | note
    machine.write(tests.PATH, json.dumps(document).encode())
    if not serves:
        for unit in serving.replica_units(node):
            machine.units[unit]["active"] = "inactive"
    look(node)
    return node, machine, document


def rewrite(node: Node, machine: Machine, document: dict[str, Any]) -> None:
    """Leave another result on the node."""
    machine.write(tests.PATH, json.dumps(document).encode())
    look(node)


def slow(document: dict[str, Any]) -> dict[str, Any]:
    """The result with one pair of GPUs at a third."""
    document["results"][0]["value"] = 250.0
    return document


def test_it_comes_before_the_gate_that_judges_it() -> None:
    names = [stage.name for stage in pipeline.stages()]
    assert names[names.index("gate unit") + 1 :][:2] == ["bandwidth", "passport"]


def test_where_it_is_off_nothing_is_asked_and_nothing_planned(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "off")
    del machine.files[tests.PATH]
    look(node)
    assert planned(node, "bandwidth") == []
    stage = next(stage for stage in pipeline.stages() if stage.name == "bandwidth")
    assert stage.desired(node, ()).probe_files == ()


@pytest.mark.parametrize("mode", ["when-installed", "required"])
def test_node_without_a_result_is_measured_by_the_program_with_time_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    node, machine, _ = prepared(tmp_path, mode)
    del machine.files[tests.PATH]
    look(node)
    asked: list[tuple[str, int]] = []

    def program(remote: Remote, arguments: str, stdin: None = None, timeout: int = 0) -> str:
        asked.append((arguments, timeout))
        return "86 results\n"

    monkeypatch.setattr(Remote, "program", program)
    stage = next(stage for stage in pipeline.stages() if stage.name == "bandwidth")
    (change,) = stage.plan(node)
    assert change.what == "measure the bandwidth"
    assert change.apply(node) == "86 results"
    ((arguments, timeout),) = asked
    assert arguments == "bandwidth"
    assert timeout > sum(probe.timeout_s for probe in tests.PROBES)


@pytest.mark.parametrize("serves", [False, True])
def test_result_that_holds_is_kept(tmp_path: Path, serves: bool) -> None:
    node, _, _ = prepared(tmp_path, "required", serves)
    assert planned(node, "bandwidth") == []


@pytest.mark.parametrize(("serves", "plan"), [(False, MEASURE), (True, [])])
def test_young_result_of_an_earlier_boot_is_renewed_when_nothing_serves(
    tmp_path: Path, serves: bool, plan: list[str]
) -> None:
    node, machine, document = prepared(tmp_path, "required", serves, boot_id="earlier")
    rewrite(node, machine, document | {"taken_at": (node.state or {})["taken_at"]})
    assert planned(node, "bandwidth") == plan


def test_old_result_of_an_earlier_boot_refuses_a_node_that_serves(tmp_path: Path) -> None:
    node, _, _ = prepared(tmp_path, "required", serves=True, boot_id="earlier")
    with raises_message(StageFailed, DAYS=re.compile(r"\d+(?= days ago)")):
        planned(node, "bandwidth")


def test_result_of_another_driver_is_measured_again(tmp_path: Path) -> None:
    node, _, _ = prepared(tmp_path, "required", driver_version="575.57.08")
    assert planned(node, "bandwidth") == MEASURE


def test_bad_result_is_measured_again_and_left_to_the_gate_while_it_serves(tmp_path: Path) -> None:
    node, machine, document = prepared(tmp_path, "required")
    rewrite(node, machine, slow(document))
    assert planned(node, "bandwidth") == MEASURE
    for unit in serving.replica_units(node):
        machine.start(unit)
    look(node)
    assert planned(node, "bandwidth") == []


def test_node_that_serves_and_was_never_measured_is_not_stopped_but_refused(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", serves=True)
    del machine.files[tests.PATH]
    look(node)
    with raises_message(StageFailed):
        planned(node, "bandwidth")


@pytest.mark.parametrize("one", [True, False])
def test_replica_that_cannot_be_seen_may_serve(tmp_path: Path, one: bool) -> None:
    node, machine, document = prepared(tmp_path, "required")
    rewrite(node, machine, slow(document))
    assert node.state is not None
    units = node.state["units"]
    unread = {"unmeasured": "no answer"}
    # Without any unit read the node is unmeasured for that, too, and so not measured either way.
    node.state["units"] = {**units, serving.replica_units(node)[0]: unread} if one else unread
    assert planned(node, "bandwidth") == []


def test_node_that_is_refused_anyway_is_not_measured(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", boot_id="earlier")
    machine.hardware["gpus"][2]["links"][4]["state"] = 0
    look(node)
    assert planned(node, "bandwidth") == []


def test_tool_that_came_since_is_used(tmp_path: Path) -> None:
    missing = {"all_reduce_perf": "not installed"}
    node, machine, _ = prepared(tmp_path, "when-installed", missing=missing)
    assert planned(node, "bandwidth") == MEASURE
    for place in tests.PLACES["all_reduce_perf"]:
        del machine.files[place]
    look(node)
    assert planned(node, "bandwidth") == []


def test_mode_reaches_what_the_node_is_judged_by(tmp_path: Path) -> None:
    node, _, _ = prepared(tmp_path, "when-installed")
    assert gate.expectation(node)["bandwidth"] == "when-installed"
