"""What the node makes of its own smoke test: answers judged, and the state that it holds for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import Golden, GoldenResult
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.renewal import command as measured
from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.node.client.golden_answers import another, answers, changed, less_sure, replies

KEPT = Reference(answers(), 8, "n02, 2026-11-20T03:00:00Z")
BEFORE = smoke_results.result({"taken_at": "2026-11-24T03:00:00Z", "fingerprint": "f" * 64})


def smoke(*ages_s: float, golden: GoldenResult | None = None) -> SmokeResult:
    """A day after the one before."""
    changes = {"taken_at": "2026-11-25T03:00:00Z", "conditions.server_ages_s": [*ages_s]}
    found = smoke_results.result(changes)
    return replace(found, golden=golden or found.golden)


def said(made: Any) -> GoldenResult:
    """`golden` of a test in which both replicas said this."""
    return Golden({f"direct-{n}": replies(made) for n in (0, 1)}, 8).result()


@in_subtests(
    ("made", "reference", "outcome", "verdict"),
    [
        (answers(), KEPT, "same", "pass"),
        (changed(less_sure(1.0)), KEPT, "drifted", "pass"),
        (changed(another), KEPT, "different", "fail"),
        (answers(), None, "unmeasured", "invalid"),
    ],
)
def test_answers_are_held_against_the_reference_on_the_node(
    made: Any, reference: Reference | None, outcome: str, verdict: str
) -> None:
    found = measured.judged_here(smoke(golden=said(made)), BEFORE, reference)
    assert isinstance(found.golden, GoldenResult)
    assert found.golden.reference is not None
    assert (found.golden.reference.outcome, found.verdict) == (outcome, verdict)
    assert bool(found.golden.answers) == (verdict != "pass")


@in_subtests(
    ("ages_s", "before", "is_kept"),
    [
        ((90_000.0, 86_401.0), BEFORE, True),
        ((90_000.0, 3600.0), BEFORE, False),
        ((), BEFORE, False),
        ((90_000.0,), replace(BEFORE, taken_at="?"), False),
        ((90_000.0,), replace(BEFORE, fingerprint=""), False),
        ((90_000.0,), None, False),
    ],
)
def test_it_holds_for_the_same_servers_alone(
    ages_s: tuple[float, ...], before: SmokeResult | None, is_kept: bool
) -> None:
    assert bool(measured.judged_here(smoke(*ages_s), before, None).fingerprint) == is_kept


def test_test_without_answers_stays_what_it_is() -> None:
    found = measured.judged_here(smoke(), BEFORE, None)
    assert (found.verdict, found.comparison) == ("pass", measured.COMPARISON)
