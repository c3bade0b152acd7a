"""The one text of a moment: UTC to the second, "2026-11-21T09:40:12Z"."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# datetime.UTC is newer than the Python of Ubuntu 22.04.
UTC = timezone.utc


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
    """The moment of such a text; ValueError when it is none, or names no time zone."""
    # Python 3.10 does not read the "Z" that 3.11 reads.
    moment = datetime.fromisoformat(str(stamp).replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{stamp!r} names no time zone")
    return moment
