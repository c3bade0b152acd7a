"""`renew` on a node: what it says and leaves, with the node's own gateway and engine replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.agent.evidence import Now, issue
from b200kit.node.client import client_health
from b200kit.node.client.chat import Tally
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib import boot_clock, documents
from b200kit.node.renewal import attempts, command
from b200kit.node.renewal.command import due
from b200kit.node.renewal.node import ThisNode
from b200kit.node.renewal.traffic import GatewayTraffic
from b200kit.node.state import agent
from b200kit.node.state.agent import AgentState
from b200kit.node.state.proof import (
    FAIL,
    KINDS,
    PASS,
    UNMEASURED,
    NodeProof,
    ProofEvidence,
    ProofRules,
    RenewalRules,
    ServingNow,
    stamp,
)
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.latency.test_smoke import config

DAY = "00:00-24:00"
PASSED = smoke_results.result()
BEFORE = json.dumps(smoke_results.document({"taken_at": "2026-11-20T00:00:00Z"}))
Renew = Callable[..., int]

RULES = ProofRules("n01", dict.fromkeys(KINDS, 100.0), ["latency"])


@pytest.fixture
def renew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Renew:
    """Run it on an idle node; the keywords are what differs there."""
    (tmp_path / "smoke.json").write_text(BEFORE)
    places = {"RECORD": "smoke.json", "LOCK": "renewal.lock"}
    monkeypatch.setattr(agent, "PATH", str(tmp_path / "agent.json"))
    for name, file in places.items():
        monkeypatch.setattr(command, name, tmp_path / file)
    for name in ("EVERY_S", "WATCHED_S"):
        monkeypatch.setattr(attempts, name, 0.01)
    monkeypatch.setattr(client_health, "pin", lambda _: "any")
    serving = config(tmp_path, "http://127.0.0.1:1")

    def run(
        age_s: float = 60.0, window: str = DAY, found: SmokeResult = PASSED, **node: Any
    ) -> int:
        async def measured(self: ThisNode, tally: Tally) -> SmokeResult:
            del self, tally
            return found

        async def nobody(self: ThisNode) -> GatewayTraffic:
            del self
            return GatewayTraffic(0, 0)

        replaced = {
            "hindrance": lambda _: "", "at_gateway": lambda _: GatewayTraffic(0, 0),
            "traffic": nobody, "measure": measured, **node,
        }  # fmt: skip
        for name, function in replaced.items():
            monkeypatch.setattr(ThisNode, name, function)
        (tmp_path / "agent.json").write_bytes(documents.to_bytes(_state(age_s)))
        rules = replace(RULES, renew=RenewalRules(window, 0.05, 0.5) if window else None)
        (tmp_path / "rules.json").write_bytes(documents.to_bytes(rules))
        return command.main(["--rules", str(tmp_path / "rules.json"), "--serving", str(serving)])

    return run


def _state(age_s: float) -> AgentState:
    boot_id, boot_s = boot_clock.now()
    wall_s = 1_795_611_600.0
    latency = ProofEvidence("latency", PASS, taken_at=stamp(wall_s - age_s))
    proof = issue(None, [latency], ServingNow(), Now(boot_id, boot_s, wall_s), RULES)
    return AgentState("n01", "1", boot_id, boot_s, "then", {}, 60.0, proof=proof)


def left(tmp_path: Path) -> Any:
    """The result that lies there."""
    return json.loads((tmp_path / "smoke.json").read_text())


def test_what_is_due_is_measured_and_kept(
    renew: Renew, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert renew() == 0
    assert left(tmp_path)["verdict"] == "pass"
    assert left(tmp_path)["comparison"]["outcome"] == "none"
    assert "latency measured again: pass" in capsys.readouterr().err


def test_failed_test_is_kept_as_any_other(renew: Renew, tmp_path: Path) -> None:
    assert renew(found=replace(PASSED, verdict="fail", reasons=("slow",))) == 1
    assert left(tmp_path)["reasons"] == ["slow"]


def test_nothing_is_done_where_nothing_is_due(
    renew: Renew, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert renew(age_s=10.0) == 0
    assert "nothing is due" in capsys.readouterr().err
    assert renew(window="") == 0
    assert (tmp_path / "smoke.json").read_text() == BEFORE


def test_node_that_was_never_idle_keeps_what_it_had_and_says_so(
    renew: Renew,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter(range(1000))
    monkeypatch.setattr(ThisNode, "left_s", lambda _: 20 - next(looks))
    assert renew(hindrance=lambda _: "the node is drained") == 0
    assert (tmp_path / "smoke.json").read_text() == BEFORE
    assert "could not be measured again: the node is drained" in capsys.readouterr().err


def test_second_one_leaves_it_to_the_first(
    renew: Renew, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.is_alone(tmp_path / "renewal.lock")
    assert renew() == 0
    assert "another one" in capsys.readouterr().err
    assert (tmp_path / "smoke.json").read_text() == BEFORE


def test_configuration_that_cannot_be_used_is_one_line(
    renew: Renew, capsys: pytest.CaptureFixture[str]
) -> None:
    assert renew(window="night") == 2
    assert capsys.readouterr().err.count("\n") == 1


WALL = 1_795_611_600.0


def old(age_s: float) -> dict[str, Any]:
    """Of evidence that was taken so many seconds ago."""
    return {"taken_at": stamp(WALL - age_s)}


LATENCY = ProofEvidence("latency", PASS, **old(10.0))
ANSWERS = replace(LATENCY, kind="answers")
GATE = ProofEvidence("gate", PASS, **old(99.0))
OLD = old(60.0)


def proof(*evidence: ProofEvidence, required: tuple[str, ...] = KINDS) -> NodeProof:
    """A proof of this boot; each holds for 100 s."""
    rules = ProofRules("n01", dict.fromkeys(KINDS, 100.0), required)
    return issue(None, evidence, ServingNow(), Now("boot-a", 1000.0, WALL), rules)


@in_subtests(
    ("evidence", "kinds"),
    [
        ((LATENCY, ANSWERS), ()),
        ((replace(LATENCY, **OLD), ANSWERS), ("latency",)),
        ((replace(LATENCY, **OLD), replace(ANSWERS, **OLD)), ("latency", "answers")),
        ((replace(LATENCY, **old(500.0)),), ("latency",)),
        ((GATE,), ()),
        ((replace(LATENCY, result=FAIL), replace(ANSWERS, **OLD)), ()),
        ((replace(LATENCY, result=UNMEASURED), replace(ANSWERS, **OLD)), ()),
    ],
)
def test_what_is_due(evidence: tuple[ProofEvidence, ...], kinds: tuple[str, ...]) -> None:
    found = due(proof(*evidence), "boot-a", 1000.0, 0.5)
    assert found.kinds == kinds
    assert found.why


def test_what_is_not_required_is_not_due() -> None:
    made = proof(LATENCY, replace(ANSWERS, **OLD), required=("latency",))
    assert due(made, "boot-a", 1000.0, 0.5).kinds == ()


def test_it_ages_after_the_proof_was_issued() -> None:
    assert due(proof(LATENCY), "boot-a", 1035.0, 0.5).kinds == ()
    assert due(proof(LATENCY), "boot-a", 1045.0, 0.5).kinds == ("latency",)


def test_without_a_proof_of_this_boot_nothing_is_due() -> None:
    assert due(None, "boot-a", 1000.0, 0.5).kinds == ()
    assert due(proof(replace(LATENCY, **OLD)), "boot-b", 1.0, 0.5).kinds == ()
