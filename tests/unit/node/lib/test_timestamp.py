"""Moments as text: one form, read back as what was written."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest

from b200kit.node.lib import timestamp
from tests.subtests import in_subtests

MOMENT = "2026-11-21T23:59:50Z"


def test_a_moment_reads_back_as_it_was_written() -> None:
    assert timestamp.text(timestamp.parse(MOMENT)) == MOMENT
    assert timestamp.parse(timestamp.now()).tzinfo == timestamp.UTC


def test_later_is_later() -> None:
    ahead = timestamp.parse(timestamp.now(3600)) - datetime.now(timestamp.UTC)
    assert ahead > timedelta(minutes=30)


# Each of the second row is a moment or a day to one Python and none to another.
@in_subtests(
    "text",
    [
        *("", "soon", "2026-11-21T23:59:50", "2026-02-30T00:00:00Z", None, 5),
        *("20261121T235950Z", "2026-W47-6T23:59:50Z", "2026-11-21 23:59:50Z", "2026-11-21T23:59Z"),
        *(
            "2026-11-21T23:59:50.5Z",
            "2026-11-21T23:59:50+00:00",
            "\uff12026-11-21T23:59:50Z",
            MOMENT + "\n",
        ),
    ],
)
def test_what_is_no_moment_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no moment"):
        timestamp.parse(text)


@in_subtests("text", [MOMENT, "20261121", "2026-W47-6", "2026-11-31", " 2026-11-21", None])
def test_what_is_no_day_is_refused(text: object) -> None:
    assert timestamp.day("2026-11-21") == date(2026, 11, 21)
    with pytest.raises(ValueError, match="is no day"):
        timestamp.day(text)
