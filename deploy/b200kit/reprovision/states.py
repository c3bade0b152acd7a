"""The life of a node that is mended: its states, and the table of the steps between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a node stands. docs/reprovision.md has a paragraph for each, in these words."""

    SERVING = "serving"
    QUARANTINED = "quarantined"
    DRAINED = "drained"
    EVIDENCED = "evidenced"
    MENDED = "mended"
    PROVISIONED = "provisioned"
    PROVEN = "proven"
    CANARY = "canary"
    HANDS = "hands"


@dataclass(frozen=True)
class Step:
    """One step: from where, its name, to where, and where the node stands when it failed."""

    start: State
    name: str
    end: State
    back: State


# The one place that says what follows what. A proof that fails goes back to `drained`, so that new
# evidence is taken before the next rung changes the node; a node that fails among its users goes
# back to where it is taken from them.
TABLE: tuple[Step, ...] = (
    Step(State.SERVING, "quarantine", State.QUARANTINED, State.SERVING),
    Step(State.QUARANTINED, "drain", State.DRAINED, State.QUARANTINED),
    Step(State.DRAINED, "evidence", State.EVIDENCED, State.DRAINED),
    Step(State.EVIDENCED, "act", State.MENDED, State.DRAINED),
    Step(State.EVIDENCED, "hand over", State.HANDS, State.EVIDENCED),
    Step(State.QUARANTINED, "take back", State.MENDED, State.QUARANTINED),
    Step(State.DRAINED, "take back", State.MENDED, State.DRAINED),
    Step(State.EVIDENCED, "take back", State.MENDED, State.EVIDENCED),
    Step(State.HANDS, "take back", State.MENDED, State.HANDS),
    Step(State.MENDED, "provision", State.PROVISIONED, State.DRAINED),
    Step(State.PROVISIONED, "prove", State.PROVEN, State.DRAINED),
    Step(State.PROVEN, "share", State.CANARY, State.SERVING),
    Step(State.CANARY, "return", State.SERVING, State.SERVING),
)


def step(start: State, name: str) -> Step:
    """The step of a name from a state; KeyError where the table has none."""
    for entry in TABLE:
        if (entry.start, entry.name) == (start, name):
            return entry
    raise KeyError(f"no step {name!r} leaves {start.value}")


def onward(start: State) -> Step:
    """The step that leads on from a state that only one leads on from."""
    return next(entry for entry in TABLE if entry.start is start and entry.name != "take back")
