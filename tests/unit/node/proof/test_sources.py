"""What each document that others left on a node proves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.lib.documents import unstructure
from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import ProofRules
from b200kit.node.proof.evidence import KINDS, Evidence
from b200kit.node.proof.sources import Left, evidence
from b200kit.node.state.verdict import Finding, GateVerdict, Status
from b200kit.node.state.watch import Fault
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.client import golden_answers

NOW = Now("boot-a", 1000.0, 1_795_611_600.0)
RULES = ProofRules("n01", dict.fromkeys(KINDS, 120.0), KINDS)
FAULT = Fault(Finding("GPU 3 has 17 of 18 NVLinks up", check="nvlink.links"), (0,), "then")
CONFIRMED = {**unstructure(FAULT), "confirmed": True}
LOOK: dict[str, Any] = {
    "schema": "b200kit/watch/1", "taken_at": "2026-11-25T12:59:50Z", "boot_s": 990.0,
    "in_service": True, "running": [0, 1], "fit": "fit", "set_aside": [],
    "fit_serving": "fit", "bandwidth": "pass", "faults": [],
}  # fmt: skip
TRIAL = {"in_service": False, "on_trial": True}
SEEN_ONCE = {"faults": [unstructure(FAULT)], "fit_serving": "unfit"}
ASIDE = {**LOOK, "fit": "unfit", "faults": [CONFIRMED], "set_aside": [FAULT.key]}
JUDGED = ("2026-11-25T12:45:00Z", "boot-a", 100.0)
GATE = unstructure(GateVerdict((Finding("all is well"),), {}, *JUDGED))


def judged(status: Status) -> dict[str, Any]:
    """What the gate leaves of a node of which one thing is so."""
    found: dict[str, Any] = unstructure(GateVerdict((Finding("it", status),), {}, *JUDGED))
    return found


def smoke(outcome: str = "same", **changes: object) -> dict[str, Any]:
    """A smoke test whose golden answers came to something."""
    compared = Golden({"direct-0": golden_answers.replies(golden_answers.answers())}, 32).result()
    golden = unstructure(replace(compared, reference=AnswersJudgement(outcome, "as n02")))
    at = {"taken_at": "2026-11-25T12:00:00Z", "reasons": ["it is slow"]}
    return smoke_results.document({**at, "golden": golden, **changes})


SMOKE = smoke()
BANDWIDTH = {"schema": "b200kit/bandwidth/1", "taken_at": "2026-11-25T12:00:00Z"}
UNREAD = {"unmeasured": "OSError: Input/output error"}


def found(kind: str, **left: Any) -> Evidence:
    """Evidence of one kind, all else well."""
    parts = {"look": LOOK, "gate": GATE, "smoke": smoke(), "bandwidth": BANDWIDTH, **left}
    parts.setdefault("replicas", (0, 1))
    whole = evidence(Left(**parts, serving="config-1"), NOW, RULES)
    assert [one.kind for one in whole] == list(KINDS)
    return {one.kind: one for one in whole}[kind]


@in_subtests(
    ("kind", "left", "result"),
    [
        ("look", {}, "pass"),
        ("look", {"look": None}, "unmeasured"),
        ("look", {"look": UNREAD}, "unmeasured"),
        ("look", {"look": {**LOOK, "schema": "b200kit/watch/2"}}, "unmeasured"),
        ("look", {"look": {**LOOK, "faults": [CONFIRMED]}}, "fail"),
        ("look", {"look": {**LOOK, **SEEN_ONCE}}, "unmeasured"),
        ("look", {"look": ASIDE, "replicas": (1,)}, "pass"),
        ("look", {"look": ASIDE}, "unmeasured"),
        ("look", {"look": ASIDE, "replicas": ()}, "unmeasured"),
        ("look", {"look": {**ASIDE, "faults": [{**CONFIRMED, "replicas": []}]}}, "pass"),
        ("look", {"look": {**LOOK, "faults": [CONFIRMED], "set_aside": ["another"]}}, "fail"),
        ("look", {"look": {**LOOK, "fit_serving": "unmeasured"}}, "unmeasured"),
        ("look", {"look": {**LOOK, "fit_serving": None}}, "unmeasured"),
        ("look", {"look": {**LOOK, "in_service": False}}, "unmeasured"),
        ("look", {"look": {**LOOK, **TRIAL}}, "pass"),
        ("look", {"look": {**LOOK, **TRIAL, "fit_serving": "unfit"}}, "unmeasured"),
        ("look", {"look": {**LOOK, "taken_at": "lately"}}, "unmeasured"),
        ("gate", {}, "pass"),
        ("gate", {"gate": {**GATE, "boot_id": "boot-b"}}, "unmeasured"),
        ("gate", {"gate": judged(Status.FAIL)}, "fail"),
        ("gate", {"gate": judged(Status.UNMEASURED)}, "unmeasured"),
        ("gate", {"gate": {**judged(Status.FAIL), "fit": "fit"}}, "unmeasured"),
        ("gate", {"gate": None}, "unmeasured"),
        ("latency", {}, "pass"),
        ("latency", {"smoke": smoke(verdict="fail")}, "fail"),
        ("latency", {"smoke": smoke(verdict="invalid")}, "unmeasured"),
        ("latency", {"smoke": "pass"}, "unmeasured"),
        ("latency", {"smoke": smoke(schema="b200kit/smoke/1")}, "unmeasured"),
        ("answers", {}, "pass"),
        ("answers", {"smoke": smoke("different")}, "fail"),
        ("answers", {"smoke": smoke("unmeasured")}, "unmeasured"),
        ("answers", {"smoke": smoke("none")}, "pass"),
        ("answers", {"smoke": smoke(golden=UNREAD)}, "unmeasured"),
        ("bandwidth", {}, "pass"),
        ("bandwidth", {"bandwidth": None}, "unmeasured"),
        ("bandwidth", {"look": {**LOOK, "bandwidth": "fail"}}, "fail"),
        ("bandwidth", {"look": {**LOOK, "bandwidth": None}}, "unmeasured"),
    ],
)  # fmt: skip
def test_what_a_document_proves(kind: str, left: dict[str, Any], result: str) -> None:
    assert found(kind, **left).result == result


def test_age_is_by_the_clock_of_the_boot_where_that_is_known() -> None:
    ages = {kind: found(kind).age_s for kind in KINDS}
    assert ages == {
        "look": 10.0, "gate": 900.0, "latency": 3600.0, "answers": 3600.0, "bandwidth": 3600.0,
    }  # fmt: skip


def test_when_it_was_taken_is_by_the_time_of_day_now_where_the_boots_clock_tells_it() -> None:
    assert [found(kind).at[11:] for kind in KINDS] == [
        *("12:59:50Z", "12:45:00Z", "12:00:00Z", "12:00:00Z", "12:00:00Z")
    ]
    # Written before the node heard of the time.
    gate = found("gate", gate={**GATE, "taken_at": "2026-10-01T00:00:00Z"})
    assert (gate.at, gate.age_s) == ("2026-11-25T12:45:00Z", 900.0)


def test_what_it_holds_for_is_a_boot_or_a_configuration() -> None:
    assert [found(kind).of for kind in KINDS] == ["boot-a", "boot-a", "config-1", "config-1", ""]
