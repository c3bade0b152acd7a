"""A proof over time: what renews it, what ends it, and what neither does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from b200kit.node.lib import documents
from b200kit.node.proof import document
from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import GpuSeconds, Proof, ProofRules, ServingNow, issued
from b200kit.node.proof.evidence import FAIL, PASS, UNMEASURED, Evidence
from tests.subtests import in_subtests

WALL = 1_795_611_600.0
HERE = Now("boot-a", 1000.0, WALL)
RULES = ProofRules("n01", {}, ("look", "latency"))
TWO = ServingNow((0, 1), 8)


def look(result: str = PASS, **changes: object) -> Evidence:
    """A look of this boot."""
    made = Evidence("look", result, "why", f"look-{result}", "boot-a", "", 0.0, 120.0)
    return replace(made, **changes)  # type: ignore[arg-type]


def latency(result: str = PASS, **changes: object) -> Evidence:
    """A smoke test of this configuration."""
    made = Evidence("latency", result, "why", "smoke-1", "config-1", "", 0.0, 3600.0)
    return replace(made, **changes)  # type: ignore[arg-type]


def later(seconds: float, stepped: float = 0.0, boot: str = "boot-a") -> Now:
    """So many seconds after HERE, by a clock that was stepped meanwhile."""
    return Now(boot, HERE.boot_s + seconds, HERE.wall_s + seconds + stepped)


def first(*evidence: Evidence) -> Proof:
    """The first proof of a node."""
    return issued(None, evidence or (look(), latency()), TWO, HERE, RULES)


def next_of(before: Proof, now: Now, *evidence: Evidence) -> Proof:
    """The proof after another look."""
    return issued(before, evidence or (look(), latency()), TWO, now, RULES)


@in_subtests(
    ("evidence", "standing"),
    [
        ((look(), latency()), "valid"),
        ((look(), latency(age_s=2900.0)), "expiring"),
        ((look(), latency(age_s=3600.0)), "expired"),
        ((look(FAIL), latency()), "expired"),
        ((look(), latency(UNMEASURED)), "expired"),
        ((look(), latency(), Evidence("bandwidth", FAIL, required=False)), "valid"),
        ((look(required=False),), "expired"),
    ],
)
def test_standing_is_that_of_the_weakest_evidence_that_is_required(
    evidence: tuple[Evidence, ...], standing: str
) -> None:
    assert first(*evidence).standing == standing


def test_nothing_is_proven_without_evidence() -> None:
    assert issued(None, [], TWO, HERE, RULES).standing == "expired"


def test_a_look_renews_and_what_it_follows_ages() -> None:
    after = next_of(first(), later(60), look(digest="look-2"), latency())
    assert [one.age_s for one in after.evidence] == [0.0, 60.0]
    assert after.sequence == first().sequence + 1


def test_a_look_that_saw_nothing_leaves_the_one_before_to_run_out() -> None:
    blind = look(UNMEASURED, digest="look-2")
    after = next_of(first(), later(60), blind, latency())
    assert after.standing == "valid"
    again = next_of(after, later(125), blind, latency())
    assert (again.standing, again.evidence[0].age_s) == ("expired", 125.0)


def test_a_fault_is_not_forgotten_by_a_look_that_saw_nothing() -> None:
    failed = first(look(FAIL), latency())
    after = next_of(failed, later(10), look(UNMEASURED, digest="look-2"), latency())
    assert after.evidence[0].result == FAIL
    assert next_of(after, later(20), look(digest="look-3"), latency()).standing == "valid"


@pytest.mark.parametrize("stepped", [86_400.0, -86_400.0])
def test_a_step_of_the_clock_neither_extends_nor_ends_evidence_and_is_refused(
    stepped: float,
) -> None:
    after = next_of(first(), later(10, stepped))
    assert after.standing == "expired"
    assert "stepped" in after.why
    assert [one.age_s for one in after.evidence] == [10.0, 10.0]
    # Back where it was, all is as if nothing had been.
    assert next_of(after, later(20)).standing == "valid"


def test_a_clock_that_was_put_right_is_believed_after_a_while() -> None:
    proof = first()
    for seconds in (10, 300, 609):
        proof = next_of(proof, later(seconds, 3600.0), look(digest=f"{seconds}"), latency())
        assert proof.standing == "expired"
    assert next_of(proof, later(611, 3600.0), look(digest="b"), latency()).standing == "valid"


def test_another_step_starts_the_wait_again() -> None:
    proof = next_of(first(), later(10, 3600.0))
    proof = next_of(proof, later(500, 7200.0))
    assert next_of(proof, later(700, 7200.0)).clock.refused


def test_a_clock_that_is_slewed_is_no_step() -> None:
    proof = first()
    for n in range(1, 20):
        proof = next_of(proof, later(10 * n, 1.0 * n), look(digest=f"{n}"), latency())
        assert proof.standing == "valid"


def test_after_a_boot_old_looks_prove_nothing_and_tests_are_as_old_as_they_are() -> None:
    unseen = look(UNMEASURED, digest="", of="boot-b")
    after = next_of(first(), later(60, boot="boot-b"), unseen, latency())
    assert after.standing == "expired"
    assert (after.evidence[1].result, after.evidence[1].age_s) == (PASS, 60.0)


@pytest.mark.parametrize(("off_days", "standing"), [(2, "valid"), (30, "expired")])
def test_days_that_no_clock_counted_are_counted_once_the_time_is_believed(
    off_days: float, standing: str
) -> None:
    taken = latency(ttl_s=7 * 86_400.0, at="2026-11-25T13:00:00Z")
    proof, stepped = first(look(), taken), off_days * 86_400.0
    # Off for days; its clock goes on where it stood, until it hears of the time.
    for seconds, step in ((60, 0.0), (90, stepped), (400, stepped), (700, stepped)):
        seen = look(digest=f"{seconds}", of="boot-b")
        proof = next_of(proof, later(seconds, step, "boot-b"), seen, taken)
        assert (proof.standing, bool(proof.clock.refused)) == {
            60: ("valid", False), 700: (standing, False)
        }.get(seconds, ("expired", True))  # fmt: skip
    assert proof.evidence[1].age_s == 700 + stepped


def test_a_boot_into_the_past_is_refused() -> None:
    after = next_of(first(), later(-500, boot="boot-b"), look(of="boot-b"), latency())
    assert after.clock.refused
    assert next_of(after, later(-490, boot="boot-b"), look(of="boot-b"), latency()).clock.refused


def test_a_test_of_another_configuration_proves_nothing_until_that_is_back() -> None:
    other = next_of(first(), later(10), look(), latency(of="config-2"))
    assert other.standing == "expired"
    assert next_of(other, later(20), look(), latency()).standing == "valid"
    measured = next_of(other, later(20), look(), latency(of="config-2", digest="smoke-2"))
    assert measured.standing == "valid"


def test_gpu_seconds_count_under_a_proof_only_while_it_held() -> None:
    after = next_of(first(), later(100), look(digest="look-2"), latency())
    assert after.gpu_seconds == GpuSeconds(800.0, 800.0)
    # The looks stopped: 120 s of 1000 were proven.
    late = next_of(after, later(1100), look(digest="look-3"), latency())
    assert late.gpu_seconds == GpuSeconds(8800.0, 800.0 + 8 * 120.0)
    rebooted = next_of(late, later(5000, boot="boot-b"))
    assert rebooted.gpu_seconds == late.gpu_seconds


def test_sequence_grows_when_all_proofs_of_a_node_were_lost() -> None:
    proof = first()
    for n in range(1, 5):
        proof = next_of(proof, later(n))
    assert issued(None, proof.evidence, TWO, later(5), RULES).sequence > proof.sequence


def test_document_is_read_back_as_it_was_and_says_when_it_ends() -> None:
    made = documents.unstructure(first())
    assert documents.unstructure(documents.structure(Proof, made)) == made
    assert made["issued_at"] == "2026-11-25T13:00:00Z"
    assert made["valid_until"] == "2026-11-25T13:02:00Z"


def test_a_proof_read_later_has_run_out_also_without_a_new_one() -> None:
    read = documents.decode(Proof, documents.to_bytes(first()))
    assert read.later(1110.0).standing == document.EXPIRING
    assert read.later(1121.0).standing == document.EXPIRED


MADE = documents.unstructure(first())
LOOKED = MADE["evidence"][0]


def with_look(**changes: object) -> dict[str, object]:
    """A proof whose look says something else."""
    return {**MADE, "evidence": [{**LOOKED, **changes}, MADE["evidence"][1]]}


@in_subtests(
    "broken",
    [
        {**MADE, "evidence": [{"kind": "look"}]},
        {**MADE, "sequence": "many"},
        {**MADE, "clock": None},
        # What is derived says otherwise than what it is derived of.
        {**MADE, "valid_until": "9999-12-31T23:59:59Z"},
        {**MADE, "standing": "expiring"},
        {**MADE, "why": "all is well"},
        with_look(valid_until="9999-12-31T23:59:59Z"),
        with_look(result="fail"),
        with_look(required="no"),
        # What no clock says.
        with_look(age_s=-1.0),
        with_look(ttl_s=1e12),
        with_look(ttl_s=float("inf")),
        with_look(kind="faith"),
        with_look(at="lately"),
        {**MADE, "issued_at": "9999-12-31T23:59:59Z"},
        {**MADE, "issued_at": "2026-13-01T00:00:00Z"},
        {**MADE, "boot_s": -1.0},
        {**MADE, "clock": {"epoch_s": 1.0, "off_s": 0.0}},
    ],
)
def test_what_is_no_proof_is_refused(broken: object) -> None:
    with pytest.raises(documents.Malformed):
        documents.structure(Proof, broken)
