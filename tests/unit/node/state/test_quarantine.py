"""The mark of a node that was taken out: its first day stays, and a trial ends by itself."""

from __future__ import annotations

from b200kit.node.state import quarantine
from tests.messages import assert_message
from tests.subtests import in_subtests

MARK = quarantine.put(None, "alice@ops", "GPU 2 has no NVLink", "2026-11-20T09:40:00Z")
TRIAL = quarantine.admit(MARK, "bob@ops", "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z")


def test_first_day_stays_and_the_last_word_counts() -> None:
    again = quarantine.put(TRIAL, "bob@ops", "replace GPU 2", "2026-11-21T11:00:00Z")
    assert_message(quarantine.describe(again))
    assert again["when"] == "2026-11-21T11:00:00Z"
    assert again["trial"] is None


@in_subtests(
    ("now", "open_"),
    [
        ("2026-11-21T08:59:59Z", False),
        ("2026-11-21T09:00:00Z", True),
        ("2026-11-21T09:59:59Z", True),
        ("2026-11-21T10:00:00Z", False),
        ("2016-01-01T00:00:00Z", False),
    ],
)
def test_trial_holds_between_its_two_times_alone(now: str, open_: bool) -> None:
    assert quarantine.on_trial(TRIAL, now) is open_


@in_subtests(
    "mark",
    [None, {}, MARK, {"trial": "yes"}, {"trial": {}}, {"trial": {"since": 1, "until": 9}}, "x"],
)
def test_what_is_not_understood_is_no_trial(mark: object) -> None:
    assert quarantine.on_trial(mark, "2026-11-21T09:30:00Z") is False
    assert quarantine.describe(mark).startswith("quarantined by ")
