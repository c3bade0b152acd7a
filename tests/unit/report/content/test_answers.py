"""The answers and the goodput interval, as the page shows them."""

from __future__ import annotations

from typing import Any

from tests.subtests import in_subtests
from tests.unit import smoke_results
from tests.unit.report import records
from tests.unit.report.pages import page

SAME = {"outcome": "same", "nats": 0.0, "why": ""}
WHERE = "prompt 1, token 6: 'river ' against 'wind '"
WRONG = {"outcome": "different", "nats": 2.75, "why": WHERE}


def shown(**changes: Any) -> str:
    """The text of the page of a node with such a smoke test."""
    found = records.smoke()
    for path, value in changes.items():
        smoke_results.put(found, path.replace("__", "."), value)
    return page(n01=records.live(smoke=found)).text


def golden(replicas: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Of a smoke document."""
    asked = {"set": "golden/1", "tokens": 32, "tolerance": 0.5, "requests": 12, "seconds": 1.5}
    return {**asked, "replicas": replicas, "agreed": True, "doubt": "", "answers": {}, **more}


def test_page_shows_the_share_that_met_the_objective_with_its_interval() -> None:
    text = shown(main__goodput_share=0.983, main__goodput_share_ci95=[0.911, 0.999])
    assert "met the objective98.3 % (91.1 to 99.9)" in text


@in_subtests(
    ("found", "said"),
    [
        (
            golden({"direct-0": SAME}, reference={"outcome": "same", "why": "of n02"}),
            ("same (of n02)", "same beside most replicas, largest distance 0 nats"),
        ),
        (
            golden(
                {"direct-0": SAME, "direct-1": WRONG},
                reference={"outcome": "different", "why": f"direct-1: {WHERE}"},
            ),
            (
                f"different (direct-1: {WHERE})",
                "answers of direct-1",
                f"different beside most replicas, largest distance 2.75 nats; {WHERE}",
            ),
        ),
        (
            golden({}, doubt="direct-0, direct-1: answers differ"),
            ("unmeasured: direct-0, direct-1: answers differ",),
        ),
        ({"unmeasured": "no golden prompt was sent"}, ("unmeasured: no golden prompt was sent",)),
    ],
)
def test_page_shows_what_the_answers_came_to(found: object, said: tuple[str, ...]) -> None:
    text = shown(golden=found)
    for one in said:
        assert one in text
