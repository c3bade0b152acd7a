"""What is known of a node, the words for how it may stand, and the time as it has it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from b200kit.node.lib import timestamp
from b200kit.report.content.now.proof import moment
from b200kit.report.document import duration, number, read
from b200kit.report.outcome import Outcome

SCHEMA = "b200kit/standing/1"
_STATES = (
    Outcome("out", "OUT", "bad"),
    Outcome("partly out", "PARTLY OUT", "bad"),
    Outcome("expired", "EXPIRED", "bad"),
    Outcome("fault", "FAULT", "bad"),
    Outcome("not read", "NOT READ", "unknown"),
    Outcome("unknown", "UNKNOWN", "unknown"),
    Outcome("not proven", "NOT PROVEN", "unknown"),
    Outcome("planned", "PLANNED", "idle"),
    Outcome("member", "MEMBER", "idle"),
    Outcome("expiring", "EXPIRING", "waived"),
)
STATES = {state.word: state for state in _STATES}
"""What a node may be besides serving, that which most needs a person first."""
RANK = {state.word: place for place, state in enumerate(_STATES)}
SERVING = Outcome("serving", "serving", "good")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a node: its last answer and when that came, in seconds since 1970.

    *why*: why the last question brought none; "" where it did. *since*: when it was first asked.
    """

    standing: object = None
    read_at: float | None = None
    why: str = ""
    since: float = 0.0
    look_age_max_s: float = 75.0


@dataclass(frozen=True, slots=True)
class Planned:
    """What the transactions say of a node that somebody works on; *change*: it is no repair."""

    text: str
    change: bool = False
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to know of a node: a word of STATES, what it is, when, and what is next.

    *when* is a text of its own, so that nodes that are alike but for it are shown together, and
    *age_s* puts the oldest first.
    """

    state: str
    what: str
    next: str = ""
    when: str = field(default="", compare=False)
    age_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Clock:
    """The node's clocks at its answer, and the seconds that passed since."""

    at: datetime | None
    boot_s: float | None
    passed_s: float

    @classmethod
    def of(cls, known: Known, now: float) -> Clock:
        """Of an answer that is so old at *now*."""
        return cls(
            moment(read(known.standing, "at")),
            number(read(known.standing, "boot_s")),
            max(0.0, now - (known.read_at or now)),
        )

    def age_s(self, stamp: object) -> float | None:
        """Seconds since a time of the node's own clock."""
        then = moment(stamp)
        if then is None or self.at is None:
            return None
        return (self.at - then).total_seconds() + self.passed_s

    def since(self, stamp: object) -> tuple[str, float]:
        """ "since 09:14:02Z (4 m 10 s)", and the seconds; nothing where that is not known."""
        age, then = self.age_s(stamp), moment(stamp)
        if age is None or then is None:
            return "", 0.0
        return f"since {day_and_time(then, age)} ({duration(max(0.0, age))})", age


def day_and_time(then: datetime, age_s: float) -> str:
    """A time in UTC, with its day where that is long ago."""
    text = timestamp.text(then)
    return text.replace("T", " ") if abs(age_s) > 12 * 3600 else text[11:]
