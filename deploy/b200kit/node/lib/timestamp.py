"""The one text of a moment, UTC to the second, "2026-11-21T09:40:12Z", and that of a day.

They are read by one pattern: what `fromisoformat` takes differs from one Python to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from typing import TypeVar

T = TypeVar("T")
# datetime.UTC is newer than the Python of Ubuntu 22.04.
UTC = timezone.utc
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(_DAY.pattern + r"T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")


def now(later_s: float = 0.0) -> str:
    """This moment, or one so many seconds later."""
    return text(datetime.now(UTC) + timedelta(seconds=later_s))


def today() -> str:
    """The date in UTC, by which a waiver ends, on the node as on the controller: "2026-11-21"."""
    return datetime.now(UTC).date().isoformat()


def text(moment: datetime) -> str:
    """A moment in UTC as text."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(stamp: object) -> datetime:
    """The moment of such a text; ValueError for any other."""
    return _read(_MOMENT, of, stamp, "moment, as 2026-11-21T09:40:12Z")


def day(text: object) -> date:
    """The day of such a text, "2026-11-21"; ValueError for any other."""
    return _read(_DAY, lambda figures: date(*map(int, figures)), text, "day, as 2026-11-21")


def of(figures: Iterable[str]) -> datetime:
    """The moment of year, month, day, hour, minute and second in UTC; ValueError for none."""
    year, month, day, hour, minute, second = map(int, figures)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _read(
    pattern: re.Pattern[str], made: Callable[[Iterable[str]], T], text: object, what: str
) -> T:
    found = pattern.fullmatch(text) if isinstance(text, str) else None
    with suppress(ValueError):  # of the 31 February, which names no figure
        if found:
            return made(found.groups())
    raise ValueError(f"{text!r} is no {what}")
