"""What is due: old evidence that passed, and nothing that only a controller can judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit.node.agent.evidence import Now, issue
from b200kit.node.renewal.due import due
from b200kit.node.state.proof import (
    FAIL,
    KINDS,
    PASS,
    UNMEASURED,
    Evidence,
    Proof,
    ProofRules,
    ServingNow,
    stamp,
)
from tests.subtests import in_subtests

WALL = 1_795_611_600.0


def old(age_s: float) -> dict[str, Any]:
    """Of evidence that was taken so many seconds ago."""
    return {"taken_at": stamp(WALL - age_s)}


LATENCY = Evidence("latency", PASS, **old(10.0))
ANSWERS = replace(LATENCY, kind="answers")
GATE = Evidence("gate", PASS, **old(99.0))
OLD = old(60.0)


def proof(*evidence: Evidence, required: tuple[str, ...] = KINDS) -> Proof:
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
def test_what_is_due(evidence: tuple[Evidence, ...], kinds: tuple[str, ...]) -> None:
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
