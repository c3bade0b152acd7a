"""A node that is changed or repaired, as one transaction: what its lines add up to. Pure.

The store has a line an event, which only grow. Every step is two lines, `intent` before and
`done` (or `failed`) after, so that a controller that dies between them leaves a step that is known
to be open. `fold` makes the node's transaction of the lines, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from b200kit.node.lib import timestamp
from b200kit.node.state.verdict import Finding
from b200kit.reprovision.escalation import Attempt, Decision
from b200kit.reprovision.ledger_line import (
    AbortLine,
    ClaimLine,
    ClosingLine,
    DoneLine,
    EvidenceBundle,
    FailedLine,
    IntentLine,
    LedgerLine,
    LedgerState,
    OpenLine,
    ReleaseLine,
)
from b200kit.reprovision.planned_change import PlannedChange, Work
from b200kit.reprovision.states import RepairState, onward, step
from b200kit.run.document import StepTaken, TakenOut, TransactionReport


@dataclass(frozen=True)
class Transaction:
    """A node's transaction as its lines have it; `id` is empty where none is open.

    *pending* is the intent that no line closes, *owner* the claim in force or none, *decision* the
    last one made, *change* the last change that the node was taken out for, open or not, *took*
    seconds of earlier steps, *digest* that of its newest line in the store.
    """

    node: str
    id: str = ""
    state: RepairState = RepairState.SERVING
    pending: IntentLine | None = None
    owner: ClaimLine | None = None
    quarantine: TakenOut | None = None
    findings: tuple[Finding, ...] = ()
    cause: str = ""
    decision: Decision | None = None
    evidence: EvidenceBundle | None = None
    attempts: tuple[Attempt, ...] = ()
    steps: tuple[StepTaken, ...] = ()
    digest: str = ""
    opened: str = ""
    why: str = ""
    error: str = ""
    change: PlannedChange | None = None
    took: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the node is out of service by it."""
        return bool(self.id)

    @property
    def intent(self) -> IntentLine:
        """The pending one; LookupError where there is none."""
        if self.pending is None:
            raise LookupError("a step ends that nothing began")
        return self.pending

    @property
    def work(self) -> Work:
        """What it does with the node."""
        return self.change.work if self.change else Work.REPAIR

    @property
    def changed(self) -> PlannedChange | None:
        """The change that this transaction was begun for; None for a repair."""
        made = any(taken.action in (Work.CHANGE, Work.ROLL_BACK) for taken in self.steps)
        return self.change if made else None

    @property
    def in_place(self) -> bool:
        """Whether the node keeps its work while it is changed."""
        return self.work is not Work.REPAIR and bool(self.change and self.change.in_place)

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts that a person must look at."""
        return self.decision.parts if self.decision else ()

    @property
    def underway(self) -> str:
        """Where it stands, for a person: "drained, in the middle of evidence"."""
        pending = f", in the middle of {self.pending.step}" if self.pending else ""
        return f"{self.state.value}{pending}"

    @property
    def standing(self) -> LedgerState:
        """What its newest line says."""
        return LedgerState(self.id, self.cause, self.change.summary if self.change else None)

    def report(self) -> TransactionReport:
        """The `reprovision` of a host record."""
        made, decision = self.changed, self.decision
        return TransactionReport(
            state=self.state,
            level=decision.level if decision else None,
            why=(decision.why if decision else "") or self.error or None,
            history=self.steps,
            parts=self.parts if self.state is RepairState.MANUAL else (),
            evidence=self.evidence.path if self.evidence else None,
            quarantine=self.quarantine,
            change=made.reported if made else None,
        )


def fold(node: str, lines: Iterable[LedgerLine]) -> Transaction:
    """The transaction that these lines add up to; LookupError where one cannot follow another."""
    found = Transaction(node)
    for line in lines:
        found = applied(found, line)
    return found


def applied(tx: Transaction, line: LedgerLine) -> Transaction:
    """The transaction after one more line."""
    match line:
        case ClaimLine():
            tx = replace(tx, owner=line)
        case ReleaseLine():
            tx = replace(tx, owner=None)
        case OpenLine():
            tx = _opened(tx, line)
        case IntentLine():
            tx = _intended(tx, line)
        case DoneLine():
            tx = _done(tx, line)
        case FailedLine():
            tx = _failed(tx, line)
        case AbortLine() if tx.change and tx.work is Work.CHANGE:
            # A person gives the change up: the node goes back to what it served.
            back, change = onward(tx.state, tx.work).back, tx.change.failing(line.why, ())
            tx = replace(tx, state=back, pending=None, change=change)
    return replace(tx, digest=line.digest)


def _opened(tx: Transaction, line: OpenLine) -> Transaction:
    """A new transaction; what was tried before still counts."""
    change = line.change and replace(line.change, already=line.findings)
    return replace(
        Transaction(tx.node, attempts=tx.attempts, digest=tx.digest, owner=tx.owner),
        change=change or tx.change,
        took=durations(tx),
        id=line.tx,
        opened=line.at,
        cause=line.cause,
        why=line.why,
        findings=line.findings,
    )


def _intended(tx: Transaction, line: IntentLine) -> Transaction:
    step(tx.state, line.step)
    tx = replace(tx, pending=line, error="", decision=line.decision or tx.decision)
    if line.level is None:
        return tx
    attempt = Attempt(line.level, seconds(line.at), id=line.id)
    return replace(tx, attempts=(*tx.attempts, attempt))


def _done(tx: Transaction, line: DoneLine) -> Transaction:
    """The step came to its end: the node stands where the table says."""
    entry = step(tx.state, tx.intent.step)
    tx = _closed(tx, line, entry.end, "done")
    if entry.name == "quarantine":
        tx = replace(tx, quarantine=TakenOut(line.who, line.at, line.why))
    if entry.name == "evidence":
        tx = replace(tx, evidence=line.evidence)
    if entry.end is RepairState.SERVING:
        # Closed: what it was about is history.
        change = tx.change and (tx.change if tx.change.outcome else tx.change.ended())
        tx = replace(_outcome(tx, "cured"), change=change)
        return replace(tx, id="", quarantine=None, findings=(), cause="")
    return tx


def _failed(tx: Transaction, line: FailedLine) -> Transaction:
    """The step failed: the node stands where the table says, or where the step began."""
    entry = step(tx.state, tx.intent.step)
    state = entry.back if line.back else entry.start
    tx = replace(_closed(tx, line, state, "failed"), error=line.result)
    if tx.change and tx.work is not Work.REPAIR and line.back:
        return replace(tx, change=tx.change.failing(tx.error, tx.findings), cause=line.cause)
    if state is entry.start or entry.name in ("drain", "evidence", "quarantine"):
        return tx
    return _outcome(tx, "failed" if entry.name == "action" else "did not help")


def _closed(tx: Transaction, line: ClosingLine, after: RepairState, outcome: str) -> Transaction:
    """The pending step is taken."""
    intent = tx.intent
    taken = StepTaken(
        at=line.at,
        began=intent.at,
        action=f"{intent.step}: {intent.level.word}" if intent.level else intent.step,
        before=tx.state,
        after=after,
        outcome=f"{outcome}: {line.result}" if line.result else outcome,
    )
    findings = tx.findings if line.findings is None else line.findings
    return replace(tx, state=after, pending=None, steps=(*tx.steps, taken), findings=findings)


def _outcome(tx: Transaction, outcome: str) -> Transaction:
    """What came of the last attempt, unless that is known already."""
    if not tx.attempts or tx.attempts[-1].outcome != "unfinished":
        return tx
    return replace(tx, attempts=(*tx.attempts[:-1], replace(tx.attempts[-1], outcome=outcome)))


def seconds(stamp: str) -> float:
    """Seconds since 1970 of "2026-11-21T09:40:12Z"."""
    return timestamp.parse(stamp).timestamp()


def durations(tx: Transaction) -> dict[str, float]:
    """Seconds that each step took when it last came to its end, by its name, "action: reboot"."""
    own = {
        taken.action: seconds(taken.at) - seconds(taken.began)
        for taken in tx.steps
        if taken.outcome.startswith("done")
    }
    return {**tx.took, **own}
