"""Record and diagnosis in a stored run: shown as they are, in 100 columns, never invented."""

from __future__ import annotations

from typing import Any

from b200kit.records.comparison import AgainstRecord
from b200kit.report.html.page import render
from tests.messages import assert_message, lines_with
from tests.subtests import in_subtests
from tests.unit.report import records
from tests.unit.report.pages import terminal

METRIC = {
    "metric": "ttft", "outcome": "different", "ratio": 1.07, "interval": [1.03, 1.11],
    "before": {"runs": 10, "median": 41.0, "low": 40.1, "high": 42.0, "cv": 0.014, "modes": []},
    "after": {"runs": 9, "median": 44.0, "low": 42.5, "high": 61.0, "cv": 0.02,
              "modes": [[8, 43.9], [1, 61.0]]},
}  # fmt: skip
DIFFERENT = {
    "schema": AgainstRecord.schema,
    "outcome": "different", "why": "TTFT +7.0 %", "slower": ["ttft"], "metrics": [METRIC],
    "baseline": {"at": "2026-10-01T09:00:00Z", "by": "ops", "why": "burn-in <ok>", "id": "abc"},
    "changed": ["driver 580.126.20 -> 580.159.03"],
    "accepted": {"count": 10, "days": 10, "first": "2026-10-01T09:00:00Z",
                 "last": "2026-10-10T09:00:00Z", "ids": []},
    "newer": {"count": 9, "days": 1, "first": "2026-11-01T09:00:00Z",
              "last": "2026-11-01T11:00:00Z", "ids": []},
    "uncompared": ["NCCL"],
    "hint": {"ttft": {"value": 44.0, "usual": 41.0, "low": 39.9, "high": 42.4, "inside": False}},
}  # fmt: skip
QUEUEING = {
    "fired": [{"name": "queueing", "symptom": "P99 bad, P50 good", "evidence": ["ratio 6.5x"],
               "cause": "requests wait", "change": "add a replica", "source": "quoted: x"}],
    "unlooked": [{"name": "throttling", "symptom": "a GPU is slowed down",
                  "why": "not measured: the GPUs' clocks were not read during the run"}],
    "cleared": ["a", "b"],
}  # fmt: skip


def both(**host: Any) -> tuple[str, str]:
    """Terminal text and page of a run over one node."""
    record = records.record(n1=records.live(**host))
    return terminal(record), render(record)


def test_difference_is_told_with_its_causes() -> None:
    text, page = both(record=DIFFERENT, diagnosis=QUEUEING)
    for words in ("DIFFERENT TTFT +7.0 %", "driver 580.126.20 -> 580.159.03", "ratio 6.5x. Cause"):
        assert words in text
    assert all(len(line) <= 100 for line in text.splitlines())
    for words in ("DIFFERENT", "42.5-61.0 in 2", "+3.0 to +11.0 %", "burn-in &lt;ok&gt;", "NCCL",
                  "differ by 3% is assumed", "the baseline predicts 39.9 to 42.4",
                  "clocks were not read",
                  "-&gt; add a replica"):  # fmt: skip
        assert words in page, words


def test_result_that_was_not_recorded_says_why() -> None:
    why = {"unmeasured": "this result is not in the record: its run conditions have no driver"}
    text, page = both(record=why)
    assert_message(*lines_with(text, "record "))
    assert "its run conditions have no driver" in page


def test_node_without_either_says_so_on_the_page_and_nothing_in_the_terminal() -> None:
    text, page = both()
    assert "record" not in text
    assert page.count("unmeasured: there is no result") == 2


ODD: list[Any] = [
    None, {}, [], "x", 3, {**DIFFERENT, "outcome": 7},
    {**DIFFERENT, "metrics": [None, {}]}, {**DIFFERENT, "schema": "b200kit/against-the-record/1"},
    {**DIFFERENT, "metrics": "x", "hint": 3, "newer": [], "changed": [None]},
]  # fmt: skip


@in_subtests("odd", ODD)
def test_odd_documents_are_shown_and_nothing_is_invented(odd: object) -> None:
    text, page = both(record=odd, diagnosis=odd)
    assert "DIFFERENT" not in text + page
    assert "same</span>" not in page
