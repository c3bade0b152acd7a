"""What the steps do: the bring-up of b200.py, a drain that does not end, a node that is silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.levels import Level
from b200kit.node.state.verdict import Action, Finding, Status, Verdict
from b200kit.operations import steps as operation_steps
from b200kit.reprovision import bring_up, node_copy, provision, steps, traffic
from b200kit.reprovision.actions import Say, evidence
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.ledger_line import EvidenceBundle, IntentLine
from b200kit.reprovision.state_machine import NotFit
from b200kit.reprovision.states import TABLE, RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node, StageFailed
from b200kit.stages import pipeline
from tests.messages import assert_message, raises_message
from tests.unit import nodes

ROOT = Path(__file__).resolve().parents[3]
TX = Transaction("n01", id="tx")
INTENT = IntentLine(step="drain", id="1")


def test_provisioning_runs_every_step_of_the_pipeline_until_one_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = nodes.bare(tmp_path)
    ran: list[str] = []

    def run_now(node: Node, step: pipeline.PipelineStep) -> None:
        ran.append(step.name)
        if len(ran) > len(pipeline.STEPS):
            node.record.outcome = "red"

    monkeypatch.setattr(operation_steps, "run_now", run_now)
    every = [step.name for step in pipeline.STEPS]
    provision.run(node, after_boot=list)
    assert ran == every
    provision.run(node, after_boot=list)
    assert ran == [*every, every[0]]


def test_node_that_was_rebooted_on_the_way_is_admitted_to_its_new_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = nodes.bare(tmp_path)
    node.record.state = {"host": {"boot_id": "one"}}
    called: list[str] = []

    def run_now(node: Node, step: pipeline.PipelineStep) -> None:
        called.append(step.name)
        if step.run is pipeline.PipelineCheckpoint.REBOOT:
            node.record.state = {"host": {"boot_id": "two"}}

    monkeypatch.setattr(operation_steps, "run_now", run_now)
    provision.run(node, after_boot=lambda: called.append("admitted"))
    assert called.count("admitted") == 1
    assert called[called.index("admitted") - 1] == "reboot"


def test_every_state_and_step_is_described_in_the_words_of_the_code() -> None:
    page = (ROOT / "docs/reprovision.md").read_text()
    assert [state for state in RepairState if f"\n**{state.value}**: " not in page] == []
    assert [step.name for step in TABLE if f"*{step.name}*" not in page] == []


class Fake:
    """One who sends work, with a number of streams at each look."""

    name = "fake"

    def __init__(self, *counts: int | None) -> None:
        self.counts = list(counts)

    def status(self, node: Node) -> int | None:
        """The next number, the last one for ever."""
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def cut(self, node: Node) -> str:
        """Nothing that would not end with the node's services."""
        return ""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose drain ends at once."""
    found, _ = nodes.bare(tmp_path, reprovision={"repair_drain_s": 0})
    monkeypatch.setattr("b200kit.reprovision.drain._POLL_S", 0)
    return found


def drain(node: Node, monkeypatch: pytest.MonkeyPatch, *senders: Fake) -> str:
    """What the step says."""
    monkeypatch.setattr(traffic, "adapters", lambda node: list(senders))
    step = steps.handler_for("drain", TX)
    return step.perform(node, INTENT, lambda text: None).result


def asked(node: Node, **changes: Any) -> None:
    node.spec = node.inventory_spec = node.spec.replace(
        reprovision=node.spec.reprovision.replace(**changes)
    )


def test_drain_waits_for_the_last_stream(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(node, repair_drain_s=60)
    sender = Fake(3, 1, 0)
    assert "nothing is open" in drain(node, monkeypatch, sender, Fake(0))
    assert sender.counts == [0]


@pytest.mark.parametrize(("count", "message"), [(3, "3 open"), (None, "open streams are unknown")])
def test_drain_that_does_not_end_stops_and_says_what_is_open(
    count: int | None, message: str, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raises_message(StageFailed):
        drain(node, monkeypatch, Fake(count))


class Jobs(Fake):
    """One whose work does not end with the node's services."""

    def cut(self, node: Node) -> str:
        """End it."""
        self.counts = [0]
        return "cancelled"


def test_drain_cuts_only_where_the_site_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(1)
    with raises_message(StageFailed):
        drain(node, monkeypatch, Fake(3), jobs)
    assert jobs.counts == [1]
    asked(node, drain_timeout="cut")
    assert_message(drain(node, monkeypatch, Fake(3), jobs))
    assert jobs.counts == [0]


def test_node_that_does_not_answer_is_not_waited_for_in_vain(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.unreachable = "timed out"
    assert "cannot be drained" in drain(node, monkeypatch, Fake(None))


def verdict(*actions: Action) -> Verdict:
    return Verdict(tuple(Finding("bad", Status.FAIL, action=action) for action in actions))


STOPPED = Finding("vllm@0.service has stopped", Status.FAIL, action=Action.RESTART_SERVICE)


@pytest.mark.parametrize(
    ("found", "climbs"),
    [
        (verdict(Action.REBOOT), True),
        (verdict(Action.MONITOR), False),
        (Verdict((Finding("good"),)), False),
        # A stage that failed leaves the node without what serves, which no level cures.
        (Verdict((replace(STOPPED, check="serving.running"),)), False),
        (Verdict((replace(STOPPED, check="watchdog.mark"),)), True),
    ],
)
def test_stage_that_failed_climbs_only_where_the_node_is_at_fault(
    found: Verdict, climbs: bool, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "judged", lambda node: found)
    monkeypatch.setattr(bring_up, "unreachable", lambda node: None)
    error = bring_up.cause_of(node, StageFailed("the mirror is away"))
    assert isinstance(error, NotFit) is climbs
    assert_message(str(error))


def test_stage_that_failed_as_the_node_went_away_asks_for_its_power(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Finding("silent", Status.FAIL, action=Action.POWER_CYCLE)
    monkeypatch.setattr(bring_up, "unreachable", lambda node: gone)
    error = bring_up.cause_of(node, StageFailed("connection lost"))
    assert isinstance(error, NotFit)
    assert error.findings == (gone,)


def test_evidence_is_told_with_what_went_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collect(node: Node, intent: IntentLine, say: Say) -> EvidenceBundle:
        say("evidence: 1.0 MB in e.tar.gz")
        say("removed 2 archives")
        return EvidenceBundle("e.tar.gz", "0")

    node, _ = nodes.bare(tmp_path)
    monkeypatch.setattr(steps, "unreachable", lambda node: None)
    monkeypatch.setattr(evidence, "collect", collect)
    found = steps.RepeatableStep(TX, steps._evidence).perform(node, INTENT, print)
    assert found.result == "evidence: 1.0 MB in e.tar.gz; removed 2 archives"


def test_every_level_but_manual_repair_has_its_action() -> None:
    assert steps.ACTIONS.keys() == {*Level} - {Level.REPLACE}


def test_history_is_what_controller_and_node_remember_each_attempt_once() -> None:
    both, mine, its = (Attempt(Level.REBOOT, at, "cured", str(at)) for at in (2.0, 3.0, 1.0))
    assert node_copy.merged((both, mine), (its, both)) == (its, both, mine)


def test_copy_on_the_node_that_makes_no_sense_is_none() -> None:
    answers = ['{"attempts": [{"level": "pray"}]}', "null", "{", '{"owner": "x", "tx": "1"}']
    remote = SimpleNamespace(run=lambda *_, **__: answers.pop())
    node = SimpleNamespace(connected=lambda: remote)
    while answers:
        assert node_copy.read(node) is None  # type: ignore[arg-type]
