"""The states of a node that is out of service, and the table of the steps between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from b200kit.reprovision.planned_change import Work


class State(StrEnum):
    """Where a node stands. docs/reprovision.md has a paragraph for each, in these words."""

    SERVING = "serving"
    QUARANTINED = "quarantined"
    DRAINED = "drained"
    EVIDENCED = "evidenced"
    REPAIRED = "repaired"
    PROVISIONED = "provisioned"
    PROVEN = "proven"
    CANARY = "canary"
    MANUAL = "manual repair"


@dataclass(frozen=True)
class Transition:
    """One step: from where, its name, to where, and where the node stands when it failed."""

    start: State
    name: str
    end: State
    back: State


# The one place that says what follows what. A proof that fails goes back to `drained`, so that new
# evidence is taken before the next level changes the node; a node that fails among its users goes
# back to where it is taken from them.
TABLE: tuple[Transition, ...] = (
    Transition(State.SERVING, "quarantine", State.QUARANTINED, State.SERVING),
    Transition(State.QUARANTINED, "drain", State.DRAINED, State.QUARANTINED),
    Transition(State.DRAINED, "evidence", State.EVIDENCED, State.DRAINED),
    Transition(State.DRAINED, "change", State.PROVISIONED, State.DRAINED),
    Transition(State.DRAINED, "roll back", State.PROVISIONED, State.DRAINED),
    Transition(State.EVIDENCED, "action", State.REPAIRED, State.DRAINED),
    Transition(State.EVIDENCED, "hand over", State.MANUAL, State.EVIDENCED),
    Transition(State.QUARANTINED, "release", State.REPAIRED, State.QUARANTINED),
    Transition(State.DRAINED, "release", State.REPAIRED, State.DRAINED),
    Transition(State.EVIDENCED, "release", State.REPAIRED, State.EVIDENCED),
    Transition(State.MANUAL, "release", State.REPAIRED, State.MANUAL),
    Transition(State.REPAIRED, "provision", State.PROVISIONED, State.DRAINED),
    Transition(State.PROVISIONED, "prove", State.PROVEN, State.DRAINED),
    Transition(State.PROVEN, "share", State.CANARY, State.SERVING),
    Transition(State.CANARY, "return", State.SERVING, State.SERVING),
)


def step(start: State, name: str) -> Transition:
    """The step of a name from a state; LookupError where the table has none."""
    for entry in TABLE:
        if (entry.start, entry.name) == (start, name):
            return entry
    raise LookupError(f"no step {name!r} leaves {start.value}")


_OF_DRAINED = {Work.CHANGE: "change", Work.ROLL_BACK: "roll back", Work.REPAIR: "evidence"}


def onward(start: State, work: Work = Work.REPAIR) -> Transition:
    """The step that leads on from a state that only one leads on from for this work."""
    if start is State.DRAINED:
        return step(start, _OF_DRAINED[work])
    return next(entry for entry in TABLE if entry.start is start and entry.name != "release")
