"""A change that a node of the fleet was taken out for, as its transaction keeps it. Pure.

What was bad under the change and good again without it, the change has made. What was bad before,
or is without it, too, is the machine's own, and so is what was measured where nothing is changed;
of a node that does not answer, or that could not be measured, nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from b200kit.node.state.verdict import Finding, Status

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


_ENDED = {Work.CHANGE: "done", Work.ROLL_BACK: "rolled back", Work.REPAIR: "repaired"}


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
    already: tuple[Finding, ...] = ()
    failed: str = ""
    found: tuple[Finding, ...] = ()
    lost: str = ""
    own: bool = False
    outcome: str = ""

    @classmethod
    def from_line(cls, line: Mapping[str, Any], already: Sequence[Finding]) -> PlannedChange:
        """Of the line that opened the transaction, and what was found then."""
        return cls(**{key: line[key] for key in _KEPT if key in line}, already=tuple(already))

    def to_line(self) -> dict[str, Any]:
        """What opens the transaction."""
        return {key: getattr(self, key) for key in _KEPT}

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

    def summary(self) -> dict[str, Any]:
        """What the newest line of every transaction says of it."""
        return {"title": self.title, "bad": self.is_bad, "outcome": self.outcome}

    def reported(self) -> dict[str, Any]:
        """What a report says of it."""
        return {
            "title": self.title,
            "wave": f"{self.wave} of {self.waves}",
            "outcome": self.outcome or "out of service",
            "failed": self.failed or None,
        }


_KEPT = ("title", "target", "before", "wave", "waves", "in_place", "measures")


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
