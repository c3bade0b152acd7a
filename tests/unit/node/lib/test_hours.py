"""Hours of the day: over midnight, the whole day, and what are none."""

from __future__ import annotations

import pytest

from b200kit.node.lib import hours
from tests.subtests import in_subtests

DAY = 1_795_564_800.0
"""A midnight, UTC."""


@in_subtests(
    ("text", "at", "left_s"),
    [
        ("01:00-05:00", 0.5, 0),
        ("01:00-05:00", 1, 4 * 3600),
        ("01:00-05:00", 4.5, 1800),
        ("01:00-05:00", 5, 0),
        ("22:30-01:00", 23, 2 * 3600),
        ("22:30-01:00", 0.5, 1800),
        ("22:30-01:00", 12, 0),
        ("22:00-24:00", 23, 3600),
        ("00:00-24:00", 0, 86_400),
        ("00:00-24:00", 23, 3600),
    ],
)
def test_what_is_left_of_them(text: str, at: float, left_s: float) -> None:
    assert DAY % 86_400 == 0
    assert hours.parsed(text).left_s(DAY + at * 3600) == left_s


def test_begin_is_what_systemd_reads() -> None:
    assert hours.parsed("07:05-08:00").begin == "07:05"


@in_subtests("text", ["", "1:00-5:00", "01:00", "25:00-26:00", "01:60-02:00", "03:00-03:00"])
def test_what_are_no_hours(text: str) -> None:
    with pytest.raises(ValueError, match=r"hours|empty"):
        hours.parsed(text)
