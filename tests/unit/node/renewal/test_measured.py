"""What the node makes of its own smoke test: answers judged, and the state that it holds for."""

from __future__ import annotations

from typing import Any

from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import Golden
from b200kit.node.lib.documents import unstructure
from b200kit.node.renewal import measured
from b200kit.records import comparison
from tests.subtests import in_subtests
from tests.unit.node.client.golden_answers import another, answers, changed, less_sure, replies

KEPT = Reference(answers(), 8, "n02, 2026-11-20T03:00:00Z")
BEFORE = {"taken_at": "2026-11-24T03:00:00Z", "fingerprint": "f" * 64, "verdict": "pass"}


def smoke(*ages_s: float, golden: object = None) -> dict[str, Any]:
    """A day after the one before."""
    return {
        "taken_at": "2026-11-25T03:00:00Z",
        "verdict": "pass",
        "reasons": [],
        "golden": golden or {"unmeasured": "no golden prompt was sent"},
        "conditions": {"server_ages_s": [*ages_s]},
    }


def said(made: Any) -> dict[str, object]:
    """`golden` of a test in which both replicas said this."""
    found = Golden({f"direct-{n}": replies(made) for n in (0, 1)}, 8).result()
    return dict(unstructure(found))


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
    found = measured.document(smoke(golden=said(made)), BEFORE, reference)
    assert (found["golden"]["reference"]["outcome"], found["verdict"]) == (outcome, verdict)
    assert bool(found["golden"]["answers"]) == (verdict != "pass")


@in_subtests(
    ("ages_s", "before", "is_kept"),
    [
        ((90_000.0, 86_401.0), BEFORE, True),
        ((90_000.0, 3600.0), BEFORE, False),
        ((), BEFORE, False),
        ((90_000.0,), {**BEFORE, "taken_at": "?"}, False),
        ((90_000.0,), {"taken_at": BEFORE["taken_at"]}, False),
        ((90_000.0,), None, False),
    ],
)
def test_it_holds_for_the_same_servers_alone(
    ages_s: tuple[float, ...], before: object, is_kept: bool
) -> None:
    assert ("fingerprint" in measured.document(smoke(*ages_s), before, None)) == is_kept


def test_test_without_answers_stays_what_it_is() -> None:
    found = measured.document(smoke(), BEFORE, None)
    assert found["verdict"] == "pass"
    assert found["comparison"] == comparison.no_baseline(found["comparison"]["why"])
