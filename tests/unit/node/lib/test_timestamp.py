"""Moments as text: one form, read back as what was written."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from b200kit.node.lib import timestamp

MOMENT = "2026-11-21T23:59:50Z"


def test_a_moment_reads_back_as_it_was_written() -> None:
    assert timestamp.text(timestamp.parse(MOMENT)) == MOMENT
    assert timestamp.parse(timestamp.now()).tzinfo == timestamp.UTC


def test_later_is_later() -> None:
    ahead = timestamp.parse(timestamp.now(3600)) - datetime.now(timestamp.UTC)
    assert ahead > timedelta(minutes=30)


@pytest.mark.parametrize("text", ["", "soon", "2026-11-21", "2026-11-21T23:59:50", None, 5])
def test_what_is_no_moment_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"format|time zone"):
        timestamp.parse(text)
