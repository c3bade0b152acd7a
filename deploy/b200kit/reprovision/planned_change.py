"""A change that a node of the fleet was taken out for, as its transaction keeps it. Pure.

What was bad under the change and good again without it, the change has made. What was bad before,
or is without it, too, is the machine's own, and so is what was measured where nothing is changed;
of a node that does not answer, or that could not be measured, nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from b200kit.node.state.verdict import Finding, Status
from b200kit.run.document import ReportedChange

UNREACHABLE = "node.reachable"
BY_CHANGE = "rollout.change"
"""The check of a finding that no check made: a stage that failed under a change."""
BEFORE = "it was there before the change"
UNCHANGED = "nothing was changed, it was only measured"


class Work(StrEnum):
    """What a transaction does next with its node, once it is drained."""

    CHANGE = "change"
    ROLL_BACK = "roll back"
    REPAIR = "repair"


_FOLDED = {"document": False}
"""What later lines add to what opened the transaction."""
_ENDED = {Work.CHANGE: "done", Work.ROLL_BACK: "rolled back", Work.REPAIR: "repaired"}


@dataclass(frozen=True)
class ChangeSummary:
    """What the newest line of every transaction says of its last change."""

    title: str
    bad: bool = False
    outcome: str = ""


@dataclass(frozen=True)
class PlannedChange:
    """*title* says it; *target* is the digest of what is asked, *before* what the node served.

    *wave* of *waves* is its place. *in_place*: nobody else can take its work, so it is not drained.
    *measures*: nothing of it is changed. *already* was found before it. *failed* and *lost* are why
    the change, and then the rollback, did not end well.
    """

    title: str
    target: str
    before: Mapping[str, Any] | None = None
    wave: int = 1
    waves: int = 1
    in_place: bool = False
    measures: bool = False
    already: tuple[Finding, ...] = field(default=(), metadata=_FOLDED)
    failed: str = field(default="", metadata=_FOLDED)
    found: tuple[Finding, ...] = field(default=(), metadata=_FOLDED)
    lost: str = field(default="", metadata=_FOLDED)
    own: bool = field(default=False, metadata=_FOLDED)
    outcome: str = field(default="", metadata=_FOLDED)

    @property
    def work(self) -> Work:
        """What is to be done with the node."""
        if self.outcome or self.lost:
            return Work.REPAIR
        return Work.ROLL_BACK if self.failed else Work.CHANGE

    @property
    def is_bad(self) -> bool:
        """Whether it must not be made on another node before a person has looked."""
        return bool(self.failed) and not self.own

    def failing(self, why: str, found: Sequence[Finding]) -> PlannedChange:
        """The change did not end well, or the rollback that followed."""
        if not self.failed:
            lost = BEFORE if _persists(self.already, found) else ""
            lost = lost or (UNCHANGED if self.measures and _is_fault(found) else "")
            return replace(self, failed=why, found=tuple(found), lost=lost, own=bool(lost))
        return replace(self, lost=why, own=self.own or _persists(self.found, found))

    def ended(self) -> PlannedChange:
        """The node serves again."""
        return replace(self, outcome=_ENDED[self.work])

    @property
    def summary(self) -> ChangeSummary:
        """What the newest line says of it."""
        return ChangeSummary(self.title, self.is_bad, self.outcome)

    @property
    def reported(self) -> ReportedChange:
        """What a report says of it."""
        wave, outcome = f"{self.wave} of {self.waves}", self.outcome or "out of service"
        return ReportedChange(self.title, wave, outcome, self.failed or None)


def _is_fault(found: Sequence[Finding]) -> bool:
    """Whether something was read and is bad; what was not read may be the fault of a tool."""
    named = [f for f in found if f.check not in ("", UNREACHABLE, BY_CHANGE)]
    return any(f.status is Status.FAIL for f in named)


def _persists(under: Sequence[Finding], without: Sequence[Finding]) -> bool:
    """Whether something that was found under the change is there without it."""
    before, after = _names(under), _names(without)
    return bool(before & after)


def _names(findings: Sequence[Finding]) -> set[tuple[str, str]]:
    return {(f.check, f.subject) for f in findings if f.check not in ("", UNREACHABLE)}
