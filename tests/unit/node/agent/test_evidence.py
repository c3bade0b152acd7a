"""A proof: what each document proves, what renews it over time, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from b200kit.node.agent import evidence
from b200kit.node.agent.evidence import Now, issue
from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.lib import documents
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state.proof import (
    FAIL,
    PASS,
    UNMEASURED,
    Consequence,
    GpuSeconds,
    NodeProof,
    ProofEvidence,
    ProofRules,
    ServingNow,
    stamp,
)
from b200kit.node.state.verdict import Finding, GateVerdict, Status
from b200kit.node.state.watch import HealthCheck, NodeFault
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.client import golden_answers

WALL = 1_795_611_600.0
HERE = Now("boot-a", 1000.0, WALL)
TTL = {"health": 120.0, "gate": 3600.0, "latency": 3600.0, "answers": 3600.0, "bandwidth": 3600.0}
RULES = ProofRules("n01", TTL, ("health", "latency"))
TWO = ServingNow((0, 1), 8)


def look(result: str = PASS, now: Now = HERE, **changes: Any) -> ProofEvidence:
    """A look of this moment."""
    made = ProofEvidence("health", result, "why", "", now.boot_id, stamp(now.wall_s))
    return replace(made, **changes)


def latency(result: str = PASS, age_s: float = 0.0, **changes: Any) -> ProofEvidence:
    """A smoke test of this configuration, so old at HERE."""
    taken_at = stamp(WALL - age_s)
    return replace(
        ProofEvidence("latency", result, "why", "smoke-1", "config-1", taken_at), **changes
    )


def later(seconds: float, stepped: float = 0.0, boot: str = "boot-a") -> Now:
    """So many seconds after HERE, by a clock that was stepped meanwhile."""
    return Now(boot, HERE.boot_s + seconds, HERE.wall_s + seconds + stepped)


def first(*given: ProofEvidence, rules: ProofRules = RULES) -> NodeProof:
    """The first proof of a node."""
    return issue(None, given or (look(), latency()), TWO, HERE, rules)


def next_of(before: NodeProof, now: Now, *given: ProofEvidence) -> NodeProof:
    """The proof after another look."""
    return issue(before, given or (look(now=now), latency()), TWO, now, RULES)


def standing(proof: NodeProof, seconds: float = 0.0) -> str:
    """What it is worth so many seconds after it was issued."""
    return proof.validity(seconds).standing


@in_subtests(
    ("given", "word"),
    [
        ((look(), latency()), "valid"),
        ((look(), latency(age_s=2900.0)), "expiring"),
        ((look(), latency(age_s=3600.0)), "expired"),
        ((look(), latency(age_s=-60.0)), "expired"),
        ((look(), latency(taken_at="")), "expired"),
        ((look(FAIL), latency()), "expired"),
        ((look(), latency(UNMEASURED)), "expired"),
        ((look(), latency(), ProofEvidence("bandwidth", FAIL)), "valid"),
        ((), "expired"),
    ],
)
def test_it_is_worth_what_the_weakest_evidence_is_that_is_required(
    given: tuple[ProofEvidence, ...], word: str
) -> None:
    assert standing(issue(None, given, TWO, HERE, RULES)) == word


def test_one_function_says_what_it_is_worth_at_any_moment() -> None:
    made = structure(NodeProof, unstructure(first()))
    assert [standing(made, s) for s in (0, 95, 97, 121)] == [
        *("valid", "valid", "expiring", "expired")
    ]
    assert made.within("boot-a", 1097.0).standing == "expiring"
    assert made.within("boot-b", 1001.0).standing == "expired"
    assert made.issued_at == "2026-11-25T13:00:00Z"


def test_a_look_renews_and_what_it_follows_ages() -> None:
    after = next_of(first(), later(60))
    ages = [one.age_s(after.issued_s) for one in after.evidence]
    assert (ages, after.sequence) == ([0.0, 60.0], first().sequence + 1)


def test_a_look_that_saw_nothing_leaves_the_one_before_to_run_out() -> None:
    blind = look(UNMEASURED)
    after = next_of(first(), later(60), blind, latency())
    again = next_of(after, later(125), blind, latency())
    assert (standing(after), standing(again)) == ("valid", "expired")


def test_a_fault_is_not_forgotten_by_a_look_that_saw_nothing() -> None:
    after = next_of(first(look(FAIL), latency()), later(10), look(UNMEASURED), latency())
    assert after.evidence[0].result == FAIL
    assert standing(next_of(after, later(20))) == "valid"


@pytest.mark.parametrize("stepped", [3600.0, 365 * 86_400.0, -365 * 86_400.0])
def test_a_step_of_the_clock_neither_extends_nor_ends_evidence_and_is_refused(
    stepped: float,
) -> None:
    after = next_of(first(), later(10, stepped))
    assert (standing(after), "stepped" in after.validity().why) == ("expired", True)
    # Back where it was, all is as if nothing had been.
    back = next_of(after, later(20))
    assert (standing(back), back.evidence[1].taken_at) == ("valid", latency().taken_at)


def test_a_clock_that_was_put_right_is_believed_after_a_while_and_ages_are_kept() -> None:
    proof = first(look(), latency(age_s=100.0))
    old = latency(age_s=100.0)
    for seconds in (10, 300, 609):
        now = later(seconds, -3600.0)
        proof = next_of(proof, now, look(now=now), old)
        assert standing(proof) == "expired"
    now = later(611, -3600.0)
    proof = next_of(proof, now, look(now=now), old)
    assert (standing(proof), proof.evidence[1].age_s(now.wall_s)) == ("valid", 711.0)


def test_another_step_starts_the_wait_again() -> None:
    proof = next_of(first(), later(10, 3600.0))
    proof = next_of(proof, later(500, 7200.0))
    assert next_of(proof, later(700, 7200.0)).clock.refused


def test_a_clock_that_is_slewed_is_no_step() -> None:
    proof = first()
    for n in range(1, 20):
        proof = next_of(proof, later(10 * n, 1.0 * n))
        assert standing(proof) == "valid"


def test_after_a_boot_old_looks_prove_nothing_and_tests_are_as_old_as_they_are() -> None:
    unseen = ProofEvidence("health", UNMEASURED, of="boot-b")
    after = next_of(first(), later(60, boot="boot-b"), unseen, latency())
    assert standing(after) == "expired"
    assert (after.evidence[1].result, after.evidence[1].age_s(after.issued_s)) == (PASS, 60.0)


@pytest.mark.parametrize(("off_days", "word"), [(0.01, "valid"), (30, "expired")])
def test_days_that_no_clock_counted_are_counted_once_the_time_is_believed(
    off_days: float, word: str
) -> None:
    proof, stepped = first(), off_days * 86_400.0
    # Off for days; its clock goes on where it stood, until it hears of the time.
    for seconds, step in ((60, 0.0), (90, stepped), (400, stepped), (700, stepped)):
        now = later(seconds, step, "boot-b")
        proof = next_of(proof, now, look(now=now), latency())
        assert (standing(proof), bool(proof.clock.refused)) == {
            60: ("valid", False), 700: (word, False)
        }.get(seconds, ("expired", True))  # fmt: skip
    assert proof.evidence[1].age_s(proof.issued_s) == 700 + stepped


def test_a_boot_into_the_past_is_refused() -> None:
    after = next_of(first(), later(-500, boot="boot-b"))
    assert after.clock.refused
    assert next_of(after, later(-490, boot="boot-b")).clock.refused


def test_a_test_of_another_configuration_proves_nothing_until_that_is_back() -> None:
    other = next_of(first(), later(10), look(now=later(10)), latency(of="config-2"))
    assert standing(other) == "expired"
    assert standing(next_of(other, later(20))) == "valid"
    measured = next_of(other, later(20), look(), latency(of="config-2", digest="smoke-2"))
    assert standing(measured) == "valid"


def test_gpu_seconds_count_under_a_proof_only_while_it_held() -> None:
    after = next_of(first(), later(100))
    assert after.gpu_seconds == GpuSeconds(800.0, 800.0)
    # The looks stopped: 120 s of 1000 were proven.
    late = next_of(after, later(1100))
    assert late.gpu_seconds == GpuSeconds(8800.0, 800.0 + 8 * 120.0)
    rebooted = next_of(late, later(5000, boot="boot-b"))
    assert rebooted.gpu_seconds == late.gpu_seconds


def test_sequence_grows_when_all_proofs_of_a_node_were_lost() -> None:
    proof = first()
    for n in range(1, 5):
        proof = next_of(proof, later(n))
    assert issue(None, proof.evidence, TWO, later(5), RULES).sequence > proof.sequence


MADE = unstructure(first())
LOOKED = MADE["evidence"][0]


@in_subtests(
    "broken",
    [
        {**MADE, "evidence": [{"kind": "health"}]},
        {**MADE, "sequence": "many"},
        {**MADE, "clock": None},
        *(
            {**MADE, "evidence": [{**LOOKED, **changes}]}
            for changes in (
                {"required": "no"},
                {"ttl_s": 1e12},
                {"ttl_s": float("inf")},
                {"kind": "faith"},
                {"taken_at": "lately"},
            )
        ),
        {**MADE, "issued_at": "9999-12-31T23:59:59Z"},
        {**MADE, "issued_at": "2026-13-01T00:00:00"},
        {**MADE, "boot_s": -1.0},
        {**MADE, "clock": {"epoch_s": 1.0, "off_s": 0.0}},
    ],
)
def test_what_is_no_proof_is_refused(broken: object) -> None:
    with pytest.raises(documents.Malformed):
        structure(NodeProof, broken)


@in_subtests(
    ("seconds", "changes", "percent"),
    [
        (0, {}, 100),
        (119, {}, 100),
        (121, {}, 50),
        (719, {}, 50),
        (721, {}, 0),
        (721, {"rule": Consequence(50, 1e9)}, 50),
        (121, {"rule": Consequence(50, 0.0)}, 0),
        (121, {"rule": Consequence(0, 600.0)}, 0),
        (0, {"given": 5}, 5),
        (121, {"given": 5}, 2),
        (121, {"given": 1}, 1),
        (0, {"boot": "boot-b"}, 0),
        (0, {"given_look": look(FAIL)}, 50),
    ],
)
def test_share_is_that_of_the_proof_and_of_what_was_given(
    seconds: float, changes: dict[str, Any], percent: int
) -> None:
    rules = replace(RULES, expired=changes.get("rule", Consequence(50, 600.0)))
    proof = first(changes.get("given_look", look()), latency(), rules=rules)
    boot, given = changes.get("boot", "boot-a"), changes.get("given", 100)
    assert proof.share(boot, 1000.0 + seconds, given) == percent


def test_time_without_proof_is_counted_over_later_proofs_that_prove_nothing() -> None:
    failed = [first()]
    for seconds in (100.0, 400.0, 700.0):
        failed.append(next_of(failed[-1], later(seconds), look(FAIL), latency()))
    # The first of them failed while the one before held for 20 s more.
    assert [proof.expired_s for proof in failed] == [0.0, 0.0, 300.0, 600.0]
    shares = [failed[2].share("boot-a", 1000.0 + s, 100) for s in (400.0, 699.0, 701.0)]
    assert shares == [50, 50, 0]
    mended = next_of(failed[-1], later(760.0))
    assert (mended.expired_s, mended.share("boot-a", 1760.0, 100)) == (0.0, 100)
    ran_out = next_of(failed[0], later(220.0), look(FAIL), latency())
    assert ran_out.expired_s == pytest.approx(100.0)


FAULT = NodeFault(Finding("GPU 3 has 17 of 18 NVLinks up", check="nvlink.links"), (0,), "then")
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


def found(kind: str, replicas: tuple[int, ...] = (0, 1), **left: Any) -> ProofEvidence:
    """Evidence of one kind, all else well."""
    known = {"health": LOOK, "gate": GATE, "smoke": SMOKE, "bandwidth": BANDWIDTH, **left}
    seen = structure(HealthCheck, known["health"]) if known["health"] else None
    every = [
        evidence.of_health(seen, replicas, HERE),
        evidence.of_gate(known["gate"], HERE),
        *evidence.of_smoke(known["smoke"], "config-1"),
        evidence.of_bandwidth(known["bandwidth"], seen),
    ]
    return {one.kind: one for one in every}[kind]


@in_subtests(
    ("kind", "left", "result"),
    [
        ("health", {}, "pass"),
        ("health", {"health": None}, "unmeasured"),
        ("health", {"health": {**LOOK, "faults": [CONFIRMED]}}, "fail"),
        ("health", {"health": {**LOOK, **SEEN_ONCE}}, "unmeasured"),
        ("health", {"health": ASIDE, "replicas": (1,)}, "pass"),
        ("health", {"health": ASIDE}, "unmeasured"),
        ("health", {"health": ASIDE, "replicas": ()}, "unmeasured"),
        ("health", {"health": {**ASIDE, "faults": [{**CONFIRMED, "replicas": []}]}}, "pass"),
        ("health", {"health": {**LOOK, "faults": [CONFIRMED], "set_aside": ["another"]}}, "fail"),
        ("health", {"health": {**LOOK, "fit_serving": "unmeasured"}}, "unmeasured"),
        ("health", {"health": {**LOOK, "fit_serving": None}}, "unmeasured"),
        ("health", {"health": {**LOOK, "in_service": False}}, "unmeasured"),
        ("health", {"health": {**LOOK, **TRIAL}}, "pass"),
        ("health", {"health": {**LOOK, **TRIAL, "fit_serving": "unfit"}}, "unmeasured"),
        ("gate", {}, "pass"),
        ("gate", {"gate": {**GATE, "boot_id": "boot-b"}}, "unmeasured"),
        ("gate", {"gate": judged(Status.FAIL)}, "fail"),
        ("gate", {"gate": judged(Status.UNMEASURED)}, "unmeasured"),
        ("gate", {"gate": {**judged(Status.FAIL), "fit": "fit"}}, "unmeasured"),
        ("gate", {"gate": None}, "unmeasured"),
        ("latency", {}, "pass"),
        ("latency", {"smoke": UNREAD}, "unmeasured"),
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
        ("bandwidth", {"bandwidth": {"taken_at": "lately"}}, "unmeasured"),
        ("bandwidth", {"health": {**LOOK, "bandwidth": "fail"}}, "fail"),
        ("bandwidth", {"health": {**LOOK, "bandwidth": None}}, "unmeasured"),
    ],
)  # fmt: skip
def test_what_a_document_proves(kind: str, left: dict[str, Any], result: str) -> None:
    assert found(kind, **left).result == result


def test_when_it_was_taken_is_by_the_time_of_day_now_where_the_boots_clock_tells_it() -> None:
    kinds = ("health", "gate", "latency", "answers", "bandwidth")
    assert [found(kind).taken_at[11:] for kind in kinds] == [
        *("12:59:50Z", "12:45:00Z", "12:00:00Z", "12:00:00Z", "12:00:00Z")
    ]
    # Written before the node heard of the time.
    gate = found("gate", gate={**GATE, "taken_at": "2026-10-01T00:00:00Z"})
    assert gate.taken_at == "2026-11-25T12:45:00Z"
    assert [found(kind).of for kind in kinds] == ["boot-a", "boot-a", "config-1", "config-1", ""]
