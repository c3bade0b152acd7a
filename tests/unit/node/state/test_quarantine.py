"""The mark of a node that was taken out: its first day stays, and a trial ends by itself."""

from __future__ import annotations

from b200kit.node.lib.documents import unstructure
from b200kit.node.state import quarantine
from tests.messages import assert_message
from tests.subtests import in_subtests

MARK = quarantine.put(None, "alice@ops", "GPU 2 has no NVLink", "2026-11-20T09:40:00Z")
TIMES = ("2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z")
TRIAL = MARK.admitted("bob@ops", TIMES, "this boot", ends=3700.0)


def test_first_day_stays_and_the_last_word_counts() -> None:
    again = quarantine.put(TRIAL, "bob@ops", "replace GPU 2", "2026-11-21T11:00:00Z")
    assert_message(str(again))
    assert again.when == "2026-11-21T11:00:00Z"
    assert again.trial is None


@in_subtests(
    ("boot_id", "uptime_s", "open_"),
    [
        ("this boot", 100.0, True),
        ("this boot", 3699, True),
        ("this boot", 3700.0, False),
        ("the next boot", 100.0, False),
        (None, 100.0, False),
        ("this boot", None, False),
    ],
)
def test_trial_holds_in_its_boot_and_until_its_end_alone(
    boot_id: str | None, uptime_s: float | None, open_: bool
) -> None:
    assert (TRIAL.open_trial(boot_id, uptime_s) is not None) is open_


@in_subtests(
    "mark",
    [
        None,
        "x",
        {},
        unstructure(MARK),
        {**unstructure(TRIAL), "trial": "yes"},
        {**unstructure(TRIAL), "trial": {}},
        {**unstructure(TRIAL), "trial": {**unstructure(TRIAL)["trial"], "ends": "9"}},
        {**unstructure(TRIAL), "more": 1},
    ],
)
def test_what_is_not_understood_is_no_trial(mark: object) -> None:
    found = quarantine.mark_of(mark)
    assert found.open_trial("this boot", 100.0) is None
    assert str(found).startswith("quarantined by ")
