"""The lines of transactions, as documents. Pure.

Whoever writes a line says what happened; the ledger adds when, who, and what it adds up to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from b200kit.inventory.keys.levels import Level
from b200kit.node.lib.documents import LARGE, NEEDED, Malformed, structure
from b200kit.node.state.verdict import Finding
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.planned_change import ChangeSummary, PlannedChange
from b200kit.reprovision.states import RepairState


@dataclass(frozen=True)
class EvidenceBundle:
    """The bundle of a node, on the controller."""

    path: str
    sha256: str


@dataclass(frozen=True)
class LedgerState:
    """What all lines up to one add up to: the open transaction, its cause, the last change."""

    tx: str = ""
    cause: str = ""
    change: ChangeSummary | None = None


_OF_THE_STORE = {"document": False}


@dataclass(frozen=True, kw_only=True)
class LedgerLine:
    """When what was done in which transaction, by whom, and what all lines up to it add up to.

    *number* and *digest* are those of its line in the store.
    """

    most_bytes: ClassVar[int] = LARGE
    derived: ClassVar[tuple[str, ...]] = ("kind",)

    at: str = field(default="", metadata=NEEDED)
    node: str = field(default="", metadata=NEEDED)
    tx: str = field(default="", metadata=NEEDED)
    who: str = field(default="", metadata=NEEDED)
    run: str = field(default="", metadata=NEEDED)
    after: LedgerState = field(default=LedgerState(), metadata=NEEDED)
    number: int = field(default=0, metadata=_OF_THE_STORE, compare=False)
    digest: str = field(default="", metadata=_OF_THE_STORE, compare=False)

    @classmethod
    def word(cls) -> str:
        """ "claim" of a ClaimLine."""
        return cls.__name__.removesuffix("Line").lower()

    @property
    def kind(self) -> str:
        """As documents say it."""
        return self.word()

    @property
    def what(self) -> str:
        """What was done, or why."""
        return str(getattr(self, "result", "") or getattr(self, "why", ""))


@dataclass(frozen=True, kw_only=True)
class ClaimLine(LedgerLine):
    """Somebody became the node's one owner; *previous_owner* died as one."""

    previous_owner: str = ""


@dataclass(frozen=True, kw_only=True)
class OpenLine(LedgerLine):
    """The node is taken out: for what was found, or for a change."""

    findings: tuple[Finding, ...] = ()
    cause: str = ""
    why: str = ""
    change: PlannedChange | None = None


@dataclass(frozen=True, kw_only=True)
class ReleaseLine(LedgerLine):
    """Its owner gave it up to whoever claims it next."""


@dataclass(frozen=True, kw_only=True)
class IntentLine(LedgerLine):
    """A step that is about to be taken; *id* names it for ever.

    What follows *decision* are the facts by which it is known later whether it was done.
    """

    step: str
    id: str
    why: str = ""
    decision: Decision | None = None
    boot_id: str | None = None
    power: str = ""
    host_keys: tuple[str, ...] = ()

    @property
    def level(self) -> Level | None:
        """That of an action."""
        return self.decision.level if self.decision and self.step == "action" else None

    @property
    def title(self) -> str:
        """The level of an action, or the step."""
        return self.level.word if self.level else self.step


@dataclass(frozen=True, kw_only=True)
class ClosingLine(LedgerLine):
    """A step came to its end, *id* is the intent's; *findings*, where they are others by now."""

    id: str = ""
    result: str = ""
    findings: tuple[Finding, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class DoneLine(ClosingLine):
    """The step was done; *copied* is the newest action of the copy that the node took."""

    why: str = ""
    copied: str | None = None
    evidence: EvidenceBundle | None = None


@dataclass(frozen=True, kw_only=True)
class FailedLine(ClosingLine):
    """The step failed; without *back* it is to be tried again from where it began."""

    cause: str = ""
    back: bool = True


@dataclass(frozen=True, kw_only=True)
class AbortLine(LedgerLine):
    """A person gave the change up."""

    why: str


_LINES = (ClaimLine, OpenLine, ReleaseLine, IntentLine, DoneLine, FailedLine, AbortLine)


def line_of(value: Mapping[str, Any]) -> LedgerLine:
    """The line of a node's file; raises Malformed."""
    for made in _LINES:
        if value.get("kind") == made.word():
            return structure(made, value)
    raise Malformed(f"kind must be one of {', '.join(made.word() for made in _LINES)}")


@dataclass(frozen=True)
class AuditedAction:
    """A line as people read it: what, in which step, from where to where, *evidence*'s digest."""

    at: str
    node: str
    tx: str
    who: str
    run: str
    kind: str
    before: RepairState
    after: RepairState
    what: str
    step: str
    evidence: str
    digest: str

    def __str__(self) -> str:
        """One line: when, who, on which node, what, from where to where."""
        what = f": {self.what}" if self.what else ""
        return (
            f"{self.at}  {self.node}  {self.who}  {self.kind} {self.step}  "
            f"{self.before.value} -> {self.after.value}{what}"
        )
