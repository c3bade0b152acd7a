"""What is due: old evidence that passed, and nothing that only a controller can judge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit.node.proof.clock import Now
from b200kit.node.proof.document import Proof, ProofRules, ServingNow, issued
from b200kit.node.proof.evidence import FAIL, PASS, UNMEASURED, Evidence
from b200kit.node.renewal.due import due
from tests.subtests import in_subtests

LATENCY = Evidence("latency", PASS, age_s=10.0, ttl_s=100.0)
ANSWERS = replace(LATENCY, kind="answers")
GATE = Evidence("gate", PASS, age_s=99.0, ttl_s=100.0)
OLD: dict[str, Any] = {"age_s": 60.0}

RULES = ProofRules("n01", {}, [])


def proof(*evidence: Evidence) -> Proof:
    """A proof of this boot."""
    return issued(None, evidence, ServingNow(), Now("boot-a", 1000.0, 0.0), RULES)


@in_subtests(
    ("evidence", "kinds"),
    [
        ((LATENCY, ANSWERS), ()),
        ((replace(LATENCY, **OLD), ANSWERS), ("latency",)),
        ((replace(LATENCY, **OLD), replace(ANSWERS, **OLD)), ("latency", "answers")),
        ((replace(LATENCY, age_s=500.0),), ("latency",)),
        ((LATENCY, replace(ANSWERS, **OLD, required=False)), ()),
        ((GATE,), ()),
        ((replace(LATENCY, result=FAIL), replace(ANSWERS, **OLD)), ()),
        ((replace(LATENCY, result=UNMEASURED), replace(ANSWERS, **OLD)), ()),
    ],
)
def test_what_is_due(evidence: tuple[Evidence, ...], kinds: tuple[str, ...]) -> None:
    found = due(proof(*evidence), "boot-a", 1000.0, 0.5)
    assert found.kinds == kinds
    assert found.why


def test_it_ages_after_the_proof_was_issued() -> None:
    assert due(proof(LATENCY), "boot-a", 1035.0, 0.5).kinds == ()
    assert due(proof(LATENCY), "boot-a", 1045.0, 0.5).kinds == ("latency",)


def test_without_a_proof_of_this_boot_nothing_is_due() -> None:
    assert due(None, "boot-a", 1000.0, 0.5).kinds == ()
    assert due(proof(replace(LATENCY, **OLD)), "boot-b", 1.0, 0.5).kinds == ()
