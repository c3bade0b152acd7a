"""Bandwidth is measured once a boot, never beside a replica, and not where it decides nothing."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.proof import Proof
from b200kit.node.bandwidth import tests
from b200kit.run.node import Node
from b200kit.run.remote import Remote
from b200kit.stages import gate, pipeline, serving, serving_units
from tests.fake import proofs
from tests.fake.machine import Machine
from tests.unit import corpus
from tests.unit.nodes import look, make, planned, settled

MEASURE = ["measure the bandwidth"]
OLD = "2025-01-01T00:00:00Z"
GOOD = next(
    case.set["notes.bandwidth"]
    for case in corpus.corpus().cases
    if case.name == "bandwidth measured in this boot is as expected"
)


def prepared(
    folder: Path, mode: str, serves: bool = False, proven: dict[str, Any] | None = None, **note: Any
) -> tuple[Node, Machine, dict[str, Any]]:
    """A settled node with a good result of this boot, as *note* changes it."""
    node, machine = settled(folder, bandwidth=mode, proof=proven or {})
    state: dict[str, Any] = node.state or {}
    of_now = {"boot_id": state["host"]["boot_id"], "taken_at": state["taken_at"]}
    document = deepcopy(GOOD) | of_now | note
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


def ends(node: Node) -> list[str]:
    """The units that the stage's changes end."""
    stage = next(stage for stage in pipeline.stages() if stage.name == "bandwidth")
    return [unit for change in stage.plan(node) for unit in change.ends]


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
    node, _, _ = prepared(tmp_path, "required", serves, boot_id="earlier")
    assert planned(node, "bandwidth") == plan


@pytest.mark.parametrize("serves", [False, True])
def test_old_result_of_an_earlier_boot_is_renewed_whatever_serves(
    tmp_path: Path, serves: bool
) -> None:
    node, _, _ = prepared(tmp_path, "required", serves, boot_id="earlier", taken_at=OLD)
    assert planned(node, "bandwidth") == MEASURE
    assert ends(node) == (serving_units.units(node)[:5] if serves else [])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("mode", "issue", "share", "plan"),
    [
        ("required", "on", 0.79, []),
        ("required", "on", 0.81, MEASURE),
        ("required", "on", 1.5, MEASURE),
        ("required", "off", 1.5, []),
        ("when-installed", "on", 1.5, []),
    ],
)
@pytest.mark.parametrize("serves", [False, True])
def test_evidence_that_runs_out_is_renewed_whatever_serves(
    tmp_path: Path, mode: str, issue: str, share: float, plan: list[str], serves: bool
) -> None:
    node, machine, _ = prepared(tmp_path, mode, serves, {"issue": issue})
    proofs.age(machine, tests.PATH, share * node.spec.proof.bandwidth_ttl_h)
    look(node)
    assert planned(node, "bandwidth") == plan
    assert ends(node) == (serving_units.units(node)[:5] if plan and serves else [])


def test_result_that_no_look_has_seen_is_not_measured_again_for_the_one_before(
    tmp_path: Path,
) -> None:
    node, machine, document = prepared(tmp_path, "required", serves=True)
    proofs.age(machine, tests.PATH, node.spec.proof.bandwidth_ttl_h)
    look(node)
    assert node.state is not None
    before = node.state["notes"]["proof"]
    rewrite(node, machine, document | {"taken_at": node.state["taken_at"]})
    node.state["notes"]["proof"] = before
    assert planned(node, "bandwidth") == []


def test_proof_of_another_boot_or_of_unknown_age_renews_nothing(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", serves=True)
    proofs.age(machine, tests.PATH, node.spec.proof.bandwidth_ttl_h)
    look(node)
    assert node.state is not None
    state = node.state
    unread = state | {"host": state["host"] | {"uptime_s": {"unmeasured": "no answer"}}}
    earlier = state["notes"]["proof"] | {"boot_id": "earlier"}
    for node.state, plan in (
        (state, MEASURE),
        (unread, []),
        (state | {"notes": state["notes"] | {"proof": earlier}}, []),
    ):
        assert planned(node, "bandwidth") == plan


def test_proof_that_lies_there_since_proofs_were_asked_for_renews_nothing(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", serves=True)
    proofs.age(machine, tests.PATH, node.spec.proof.bandwidth_ttl_h)
    look(node)
    node.spec = node.spec.replace(proof=Proof(issue="off"))
    assert planned(node, "bandwidth") == []


def test_what_serves_ends_before_it_is_measured(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", serves=True)
    proofs.age(machine, tests.PATH, node.spec.proof.bandwidth_ttl_h)
    look(node)
    make(node, "bandwidth")
    assert not [unit for unit in serving_units.units(node) if machine.is_active(unit)]
    look(node)
    assert planned(node, "bandwidth") == []
    assert planned(node, "warm-up") != []


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


def test_node_that_serves_and_was_never_measured_is_measured(tmp_path: Path) -> None:
    node, machine, _ = prepared(tmp_path, "required", serves=True)
    del machine.files[tests.PATH]
    look(node)
    assert planned(node, "bandwidth") == MEASURE
    assert ends(node) == serving_units.units(node)[:5]


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
