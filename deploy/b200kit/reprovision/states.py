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
class Step:
    """One step: from where, its name, to where, and where the node stands when it failed."""

    start: State
    name: str
    end: State
    back: State


# The one place that says what follows what. A proof that fails goes back to `drained`, so that new
# evidence is taken before the next level changes the node; a node that fails among its users goes
# back to where it is taken from them.
TABLE: tuple[Step, ...] = (
    Step(State.SERVING, "quarantine", State.QUARANTINED, State.SERVING),
    Step(State.QUARANTINED, "drain", State.DRAINED, State.QUARANTINED),
    Step(State.DRAINED, "evidence", State.EVIDENCED, State.DRAINED),
    Step(State.DRAINED, "change", State.PROVISIONED, State.DRAINED),
    Step(State.DRAINED, "roll back", State.PROVISIONED, State.DRAINED),
    Step(State.EVIDENCED, "action", State.REPAIRED, State.DRAINED),
    Step(State.EVIDENCED, "hand over", State.MANUAL, State.EVIDENCED),
    Step(State.QUARANTINED, "release", State.REPAIRED, State.QUARANTINED),
    Step(State.DRAINED, "release", State.REPAIRED, State.DRAINED),
    Step(State.EVIDENCED, "release", State.REPAIRED, State.EVIDENCED),
    Step(State.MANUAL, "release", State.REPAIRED, State.MANUAL),
    Step(State.REPAIRED, "provision", State.PROVISIONED, State.DRAINED),
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


_OF_DRAINED = {Work.CHANGE: "change", Work.ROLL_BACK: "roll back", Work.REPAIR: "evidence"}


def onward(start: State, work: Work = Work.REPAIR) -> Step:
    """The step that leads on from a state that only one leads on from for this work."""
    if start is State.DRAINED:
        return step(start, _OF_DRAINED[work])
    return next(entry for entry in TABLE if entry.start is start and entry.name != "release")
