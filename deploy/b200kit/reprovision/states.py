"""The states of a node that is out of service, and the table of the steps between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from b200kit.reprovision.planned_change import Work


class RepairState(StrEnum):
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

    start: RepairState
    name: str
    end: RepairState
    back: RepairState


# The one place that says what follows what. A proof that fails goes back to `drained`, so that new
# evidence is taken before the next level changes the node; a node that fails among its users goes
# back to where it is taken from them.
TABLE: tuple[Transition, ...] = (
    Transition(RepairState.SERVING, "quarantine", RepairState.QUARANTINED, RepairState.SERVING),
    Transition(RepairState.QUARANTINED, "drain", RepairState.DRAINED, RepairState.QUARANTINED),
    Transition(RepairState.DRAINED, "evidence", RepairState.EVIDENCED, RepairState.DRAINED),
    Transition(RepairState.DRAINED, "change", RepairState.PROVISIONED, RepairState.DRAINED),
    Transition(RepairState.DRAINED, "roll back", RepairState.PROVISIONED, RepairState.DRAINED),
    Transition(RepairState.EVIDENCED, "action", RepairState.REPAIRED, RepairState.DRAINED),
    Transition(RepairState.EVIDENCED, "hand over", RepairState.MANUAL, RepairState.EVIDENCED),
    Transition(RepairState.QUARANTINED, "release", RepairState.REPAIRED, RepairState.QUARANTINED),
    Transition(RepairState.DRAINED, "release", RepairState.REPAIRED, RepairState.DRAINED),
    Transition(RepairState.EVIDENCED, "release", RepairState.REPAIRED, RepairState.EVIDENCED),
    Transition(RepairState.MANUAL, "release", RepairState.REPAIRED, RepairState.MANUAL),
    Transition(RepairState.REPAIRED, "provision", RepairState.PROVISIONED, RepairState.DRAINED),
    Transition(RepairState.PROVISIONED, "prove", RepairState.PROVEN, RepairState.DRAINED),
    Transition(RepairState.PROVEN, "share", RepairState.CANARY, RepairState.SERVING),
    Transition(RepairState.CANARY, "return", RepairState.SERVING, RepairState.SERVING),
)


def step(start: RepairState, name: str) -> Transition:
    """The step of a name from a state; LookupError where the table has none."""
    for entry in TABLE:
        if (entry.start, entry.name) == (start, name):
            return entry
    raise LookupError(f"no step {name!r} leaves {start.value}")


_OF_DRAINED = {Work.CHANGE: "change", Work.ROLL_BACK: "roll back", Work.REPAIR: "evidence"}


def onward(start: RepairState, work: Work = Work.REPAIR) -> Transition:
    """The step that leads on from a state that only one leads on from for this work."""
    if start is RepairState.DRAINED:
        return step(start, _OF_DRAINED[work])
    return next(entry for entry in TABLE if entry.start is start and entry.name != "release")
