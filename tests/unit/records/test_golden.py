"""Golden answers against the kept reference: who says what it is, and whom it names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.golden import reference
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import Golden, GoldenResult
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import decode, unstructure
from b200kit.node.state.view import Unmeasured
from b200kit.records import golden
from b200kit.records.entries import RecordError
from b200kit.records.store import GOLDEN, Records
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import golden as golden_stage
from b200kit.stages import serving as serving_stage
from b200kit.stages import smoke
from b200kit.store.database import SITE
from tests.fake.machine import Machine
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.client.golden_answers import another, answers, changed, less_sure, replies
from tests.unit.nodes import look, make, settled
from tests.unit.records import runs
from tests.unit.records.test_smoke_comparison import WARM
from tests.unit.store.test_database import rewrite

Said = Sequence[Answer]
OTHERS = {"server.other_requests": 7}
SOUND, WRONG, DRIFTED = answers(), changed(another), changed(less_sure(1.0))


def serving(tmp_path: Path, name: str = "n01", **changes: Any) -> tuple[Node, Machine]:
    """A node that serves, whose next result is the test's."""
    folder = tmp_path / name
    folder.mkdir(parents=True, exist_ok=True)
    node, machine = settled(folder, smoke_always=True, **changes)
    machine.readings = {"notes": {"warm": WARM}}
    object.__setattr__(node, "name", name)
    return node, machine


def result(*said: Said, **changes: object) -> dict[str, Any]:
    """A smoke test that passed on the node, of replicas that said so, as JSON."""
    group = Golden({f"direct-{n}": replies(one) for n, one in enumerate(said)}, 32)
    verdict = "invalid" if group.doubt else "pass"
    own = {
        "golden": unstructure(group.result()),
        "verdict": verdict,
        "reasons": [group.doubt][: bool(group.doubt)],
    }
    return smoke_results.document(own | changes)


def measured(on: tuple[Node, Machine], *said: Said, **changes: object) -> SmokeResult:
    """What became of it."""
    node, machine = on
    document = json.dumps(result(*said, **changes))
    machine.answers = {"node.pyz measure": (True, document)}
    look(node)
    # A verdict other than "pass" fails the stage.
    with suppress(StageFailed):
        make(node, "smoke")
    assert node.record.smoke is not None
    return node.record.smoke


def outcome(found: SmokeResult) -> tuple[str, str]:
    """The reference's outcome and the verdict."""
    return answered(found).outcome, found.verdict


def answered(found: SmokeResult) -> AnswersJudgement:
    """The answers beside the reference."""
    assert isinstance(found.golden, GoldenResult)
    assert found.golden.reference is not None
    return found.golden.reference


def test_replicas_that_agree_make_the_reference_and_later_runs_are_held_against_it(
    tmp_path: Path,
) -> None:
    node = serving(tmp_path)
    assert outcome(measured(node, SOUND, SOUND)) == ("accepted", "pass")
    assert outcome(measured(node, SOUND, SOUND)) == ("same", "pass")
    assert outcome(measured(node, DRIFTED, DRIFTED)) == ("drifted", "pass")
    assert smoke.summary(measured(node, DRIFTED, DRIFTED)).endswith("; answers: drifted")
    wrong = measured(node, WRONG, WRONG)
    assert outcome(wrong) == ("different", "fail")
    assert_message(*wrong.reasons)
    [name] = Records(GOLDEN).names()
    assert len(Records(GOLDEN).read(name).entries) == 1


def test_one_of_two_that_differ_is_named_by_the_reference(tmp_path: Path) -> None:
    node = serving(tmp_path)
    assert outcome(measured(node, SOUND, WRONG)) == ("none", "invalid")
    measured(node, SOUND, SOUND)
    found = measured(node, SOUND, WRONG)
    assert outcome(found) == ("different", "fail")
    assert "direct-1: answers otherwise than the reference of n01" in found.reasons[0]
    assert isinstance(found.golden, GoldenResult)
    assert found.golden.answers


def test_word_of_one_replica_is_no_reference_until_another_node_says_the_same(
    tmp_path: Path,
) -> None:
    one, other, third = (serving(tmp_path, name) for name in ("n01", "n02", "n03"))
    assert outcome(measured(one, SOUND)) == ("none", "pass")
    assert outcome(measured(one, SOUND)) == ("none", "pass")
    differs = measured(other, WRONG)
    assert outcome(differs) == ("unmeasured", "invalid")
    assert_message(*differs.reasons)
    assert outcome(measured(third, SOUND)) == ("accepted", "pass")
    found = measured(other, WRONG)
    assert outcome(found) == ("different", "fail")
    assert "than the reference of n01" in found.reasons[0]


def test_change_of_what_decides_the_arithmetic_means_a_new_reference(tmp_path: Path) -> None:
    assert outcome(measured(serving(tmp_path), SOUND, SOUND)) == ("accepted", "pass")
    new, machine = serving(tmp_path)
    machine.readings = {"notes": {"warm": WARM}, "nvml": {"driver_version": "590.1"}}
    found = measured((new, machine), WRONG, WRONG)
    assert outcome(found) == ("accepted", "pass")
    assert len(Records(GOLDEN).names()) == 2


KEY = golden.key(runs.run_conditions(), 32)


@in_subtests(
    "change",
    [
        {"versions__driver": "590.1"},
        {"machine__gpus": ["NVIDIA H100"]},
        {"versions__engine_lock": "other"},
        {"versions__engine_says": "0.34.0"},
        {"model__revision": "f" * 64},
        {"serving__config": {"max-num-seqs": 9}},
        {"serving__tp": [4, 4]},
    ],
)
def test_key_changes_with(change: dict[str, object]) -> None:
    assert golden.key(runs.run_conditions(**change), 32) != KEY


@in_subtests(
    "change",
    [
        {"run__node": "n02"},
        {"serving__config": {"max-num-seqs": 8, "tensor-parallel-size": 2, "port": 9001}},
        {"serving__tp": [2, 2]},
        {"serving__replicas": 8},
    ],
)
def test_key_is_the_same_whatever(change: dict[str, object]) -> None:
    assert golden.key(runs.run_conditions(**change), 32) == KEY


def test_key_that_cannot_be_told_is_no_pass() -> None:
    with raises_message(RecordError):
        golden.key(runs.run_conditions(versions__driver={"unmeasured": "no NVML"}), 32)
    assert golden.key(runs.run_conditions(), 16) != KEY


def test_record_that_was_changed_is_no_pass(tmp_path: Path) -> None:
    node = serving(tmp_path)
    measured(node, SOUND, SOUND)
    rewrite(SITE.path, "UPDATE body SET text = replace(text, 'w2.3', 'w9.9')")
    found = measured(node, SOUND, SOUND)
    assert outcome(found) == ("unmeasured", "invalid")
    assert "was changed after it was written" in found.reasons[0]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "odd",
    [[], [["a", -1.0, {}]], [{"text": "a"}], [{"text": "a", "logprob": "x", "top": {}}],
     [{"text": "a", "logprob": -1.0, "top": {"b": "c"}}]],
)  # fmt: skip
def test_answers_of_another_form_are_no_pass_and_no_reference(
    tmp_path: Path, odd: list[object]
) -> None:
    said = result(SOUND, SOUND)["golden"] | {"answers": {"direct-0": [odd], "direct-1": "direct-0"}}
    with pytest.raises(RemoteError, match=r"no measurement: golden\.answers\b"):
        measured(serving(tmp_path), SOUND, golden=said)
    assert Records(GOLDEN).names() == []


def test_answers_given_beside_others_requests_make_no_reference(tmp_path: Path) -> None:
    found = measured(serving(tmp_path), SOUND, SOUND, **OTHERS)
    assert outcome(found) == ("none", "pass")


def test_where_no_prompt_was_sent_nothing_is_compared(tmp_path: Path) -> None:
    found = measured(serving(tmp_path), SOUND, golden={"unmeasured": "no golden prompt was sent"})
    assert (found.verdict, isinstance(found.golden, Unmeasured)) == ("pass", True)
    assert Records(GOLDEN).names() == []


def on_node(node: tuple[Node, Machine]) -> Reference:
    """What the node's own watchdog and restarts compare with."""
    return decode(Reference, node[1].text(reference.PATH))


def test_reference_is_left_on_the_node_for_what_is_served_there(tmp_path: Path) -> None:
    node = serving(tmp_path)
    measured(node, SOUND, SOUND)
    name = golden_stage.holds_for(node[0], node[0].layout())
    assert name == serving_stage.serving_document(node[0], node[0].layout()).golden_for != ""
    found = on_node(node)
    assert (found.answers, found.holds_for, found.tokens) == (SOUND, name, 32)
    measured(node, WRONG, WRONG)
    assert on_node(node) == found


def test_word_of_a_single_replica_is_its_own_reference(tmp_path: Path) -> None:
    node = serving(tmp_path)
    measured(node, SOUND, **OTHERS)
    assert reference.PATH not in node[1].files
    measured(node, SOUND)
    assert on_node(node).answers == SOUND


def test_change_of_what_is_served_names_another_reference(tmp_path: Path) -> None:
    nodes = [serving(tmp_path / str(n), **c) for n, c in enumerate(CHANGES)]
    names = [golden_stage.holds_for(node, node.layout()) for node, _ in nodes]
    assert len(set(names)) == len(names)
    assert golden_stage.holds_for(nodes[0][0], []) == ""


CHANGES: list[dict[str, Any]] = [{}, {"max_num_seqs": 9}, {"max_model_len": 2048}]
