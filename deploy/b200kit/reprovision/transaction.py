"""A node that is changed or repaired, as one transaction: what its file adds up to. Pure.

The file has one line of JSON an event and only grows. Every step is two lines, `intent` before and
`done` (or `failed`) after, so that a controller that dies between them leaves a step that is known
to be open. `fold` makes the node's transaction of the lines, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from b200kit.inventory.keys.levels import Level
from b200kit.node.lib import timestamp
from b200kit.node.state.verdict import Finding, finding_of
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.planned_change import PlannedChange, Work
from b200kit.reprovision.states import State, Transition, onward, step


@dataclass(frozen=True)
class Transaction:
    """A node's transaction as its lines have it; `id` is empty where none is open.

    *pending* is the intent that no line closes, *owner* the claim in force or none, *quarantine*
    {"who", "when", "why"}, *decision* the last one made, *evidence* {"path", "sha256"}, *change*
    the last change that the node was taken out for, open or not, *took* seconds of earlier steps.
    """

    node: str
    id: str = ""
    state: State = State.SERVING
    pending: dict[str, Any] | None = None
    owner: dict[str, Any] | None = None
    quarantine: dict[str, Any] | None = None
    findings: tuple[Finding, ...] = ()
    cause: str = ""
    decision: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    attempts: tuple[Attempt, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()
    digests: tuple[str, ...] = ()
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
    def work(self) -> Work:
        """What it does with the node."""
        return self.change.work if self.change else Work.REPAIR

    @property
    def changed(self) -> PlannedChange | None:
        """The change that this transaction was begun for; None for a repair."""
        made = any(str(entry["action"]) in (Work.CHANGE, Work.ROLL_BACK) for entry in self.steps)
        return self.change if made else None

    @property
    def in_place(self) -> bool:
        """Whether the node keeps its work while it is changed."""
        return self.work is not Work.REPAIR and bool(self.change and self.change.in_place)

    @property
    def parts(self) -> list[str]:
        """Parts that a person must look at."""
        return list((self.decision or {}).get("parts", []))

    def to_json(self) -> dict[str, Any]:
        """The `reprovision` of a host record."""
        decision = self.decision or {}
        return {
            "level": decision.get("level"),
            "why": decision.get("why") or self.error or None,
            "state": self.state.value,
            "history": list(self.steps),
            "parts": self.parts if self.state is State.MANUAL else [],
            "evidence": (self.evidence or {}).get("path"),
            "quarantine": self.quarantine,
            **({"change": self.changed.reported()} if self.changed else {}),
        }


def fold(node: str, lines: Iterable[Mapping[str, Any]]) -> Transaction:
    """The transaction that these lines add up to; lines of an unknown kind change nothing."""
    found = Transaction(node)
    for line in lines:
        found = applied(found, line)
    return found


def applied(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    """The transaction after one more line."""
    take = _KINDS.get(str(line.get("kind")))
    tx = take(tx, line) if take else tx
    return replace(tx, digests=(*tx.digests, *logged(line)))


def logged(line: Mapping[str, Any]) -> list[str]:
    """The digests in the log of all actions that a line stands for."""
    found = [*(line.get("recovered") or ()), line.get("audit")]
    return [str(digest) for digest in found if digest]


def _open(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    """A new transaction; what was tried before still counts."""
    known = line.get("change")
    change = PlannedChange.from_line(known, _findings(line)) if known else tx.change
    return replace(
        Transaction(tx.node, attempts=tx.attempts, digests=tx.digests, owner=tx.owner),
        change=change,
        took=durations(tx),
        id=str(line["tx"]),
        opened=str(line["at"]),
        cause=str(line.get("cause", "")),
        why=str(line.get("why", "")),
        findings=_findings(line),
    )


def _claim(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    fields = ("owner", "run", "since")
    return replace(tx, owner={key: line.get(key) for key in fields})


def _release(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    del line
    return replace(tx, owner=None)


def _intent(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    tx = replace(tx, pending=dict(line), error="")
    if line.get("step") == "action":
        attempt = Attempt(Level.parse(line["level"]), seconds(str(line["at"])), id=str(line["id"]))
        tx = replace(tx, decision=dict(line["decision"]), attempts=(*tx.attempts, attempt))
    if line.get("step") == "hand over":
        tx = replace(tx, decision=dict(line["decision"]))
    return tx


def _done(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    """The step came to its end: the node stands where the table says."""
    intent = tx.pending or {}
    entry = step(tx.state, str(intent.get("step")))
    tx = replace(
        tx, state=entry.end, pending=None, steps=(*tx.steps, _taken(entry, intent, line, "done"))
    )
    if entry.name == "quarantine":
        tx = replace(
            tx, quarantine={key: line.get(key) for key in ("who", "why")} | {"when": line["at"]}
        )
    if entry.name == "evidence":
        tx = replace(tx, evidence={key: line.get(key) for key in ("path", "sha256")})
    if "findings" in line:
        tx = replace(tx, findings=_findings(line))
    if entry.end is State.SERVING:
        # Closed: what it was about is history.
        change = tx.change and (tx.change if tx.change.outcome else tx.change.ended())
        tx = replace(_outcome(tx, "cured"), change=change)
        return replace(tx, id="", quarantine=None, findings=(), cause="")
    return tx


def _failed(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    """The step failed; `back` false means that it is to be tried again from where it began."""
    intent = tx.pending or {}
    entry = step(tx.state, str(intent.get("step")))
    state = entry.back if line.get("back", True) else entry.start
    taken = _taken(entry, intent, line, "failed")
    tx = replace(
        tx, state=state, pending=None, error=str(line.get("result", "")), steps=(*tx.steps, taken)
    )
    if "findings" in line:
        tx = replace(tx, findings=_findings(line))
    if tx.change and tx.work is not Work.REPAIR and line.get("back", True):
        change = tx.change.failing(tx.error, tx.findings)
        return replace(tx, change=change, cause=str(line.get("cause", "")))
    if state is entry.start or entry.name in ("drain", "evidence", "quarantine"):
        return tx
    return _outcome(tx, "failed" if entry.name == "action" else "did not help")


def _abort(tx: Transaction, line: Mapping[str, Any]) -> Transaction:
    """A person gives the change up: the node goes back to what it served."""
    if tx.change is None or tx.work is not Work.CHANGE:
        return tx
    change = tx.change.failing(str(line.get("why", "")), ())
    return replace(tx, state=onward(tx.state, tx.work).back, pending=None, change=change)


def _outcome(tx: Transaction, outcome: str) -> Transaction:
    """What came of the last attempt, unless that is known already."""
    if not tx.attempts or tx.attempts[-1].outcome != "unfinished":
        return tx
    return replace(tx, attempts=(*tx.attempts[:-1], replace(tx.attempts[-1], outcome=outcome)))


def _taken(
    entry: Transition, intent: Mapping[str, Any], line: Mapping[str, Any], outcome: str
) -> dict[str, Any]:
    """A step as the report shows it."""
    level = intent.get("level")
    back = entry.back if line.get("back", True) else entry.start
    return {
        "at": line.get("at"),
        "from": entry.start.value,
        "to": (entry.end if outcome == "done" else back).value,
        "action": f"{entry.name}: {level}" if level else entry.name,
        "outcome": f"{outcome}: {line.get('result')}" if line.get("result") else outcome,
        "began": intent.get("at"),
    }


def _findings(line: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(map(finding_of, line.get("findings", [])))


_KINDS = {
    "open": _open,
    "claim": _claim,
    "release": _release,
    "intent": _intent,
    "done": _done,
    "failed": _failed,
    "abort": _abort,
}


def seconds(stamp: str) -> float:
    """Seconds since 1970 of "2026-11-21T09:40:12Z"."""
    return timestamp.parse(stamp).timestamp()


def durations(tx: Transaction) -> dict[str, float]:
    """Seconds that each step took when it last came to its end, by its name, "action: reboot"."""
    own = {
        str(entry["action"]): seconds(str(entry["at"])) - seconds(str(entry["began"]))
        for entry in tx.steps
        if str(entry["outcome"]).startswith("done") and entry.get("began")
    }
    return {**tx.took, **own}
