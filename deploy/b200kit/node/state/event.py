"""What happened on a node that serves, as one document for the site's own tools. Pure.

{"schema": "b200kit/event/1", "id": "...", "at": "2026-11-25T13:00:00Z", "node": "n01",
 "boot_id": "...", "kind": "fault.confirmed", "check": "remap.pending", "subject": "GPU 6",
 "summary": "...", "replicas": [1], "remediation": {"action": "reset-gpu", "text": "..."}}
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from b200kit.node.lib.boot_clock import Moment
from b200kit.node.lib.documents import NEEDED
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.watch import NodeFault

KINDS = {
    "fault.confirmed": "A check found a fault, and those after it, too; the replicas on it go out.",
    "fault.over": "A confirmed fault is not seen any more.",
    "replica.out": "A replica gets no requests any more; the summary says why.",
    "replica.back": "A replica that was out gets requests again.",
    "mend.begun": "The agent restarts a dead service, as `watchdog.mends` allows.",
    "mend.done": "The restarted service runs.",
    "mend.failed": "The restarted service does not run.",
    "mend.refused": "A dead service is not restarted; the summary says why.",
    "proof.expiring": "Evidence of what serves ends soon, and was not renewed at two checks.",
    "proof.expired": "Evidence of what serves has ended; the node's share of requests falls.",
    "proof.valid": "The proof that was expiring or had expired holds again.",
}
"""Kind of an event to what happened."""
_MOST = 2000
"""Characters of a summary: the agent's file holds events, not novels."""


@dataclass(frozen=True)
class Remediation:
    """What an event asks for: a step of the ladder (verdict.Action), and the same in words."""

    action: str
    text: str

    @classmethod
    def of(cls, finding: Finding) -> Remediation:
        """The one that a failed finding asks for."""
        return cls(finding.action.word, advice.of(finding))

    @classmethod
    def step(cls, action: Action, part: str) -> Remediation:
        """A step without a finding, and the part it is for."""
        restarts = action is Action.RESTART_SERVICE
        return cls(
            action.word, advice.restart(part) if restarts else advice.ladder(action, "node", part)
        )


@dataclass(frozen=True)
class Event:
    """One thing that happened. *replicas*: those it touches, by index.

    What is written has a stamp, too: *number*, one higher than that of the one before for as long
    as the node's state is kept; *id*, unique for good; when, by both clocks, and where.
    """

    schema: ClassVar[str] = "b200kit/event/1"

    kind: str
    summary: str
    check: str = ""
    subject: str = "node"
    replicas: tuple[int, ...] = ()
    remediation: Remediation | None = None
    id: str = field(default="", metadata=NEEDED)
    number: int = field(default=0, metadata=NEEDED)
    at: str = field(default="", metadata=NEEDED)
    node: str = field(default="", metadata=NEEDED)
    boot_id: str = field(default="", metadata=NEEDED)
    boot_s: float = field(default=0.0, metadata=NEEDED)

    def stamped(self, number: int, at: str, node: str, now: Moment) -> Event:
        """The same as it is written."""
        return replace(
            self, id=f"{node}-{now.boot_id}-{number:020d}", number=number, at=at, node=node,
            boot_id=now.boot_id, boot_s=round(now.seconds, 1), summary=self.summary[:_MOST],
        )  # fmt: skip


def of_fault(change: str, fault: NodeFault) -> Event:
    """A fault that a health check changed: *change* is "confirmed" or "over"."""
    finding = fault.finding
    return Event(
        f"fault.{change}",
        finding.summary,
        finding.check,
        finding.subject,
        fault.replicas,
        Remediation.of(finding) if change == "confirmed" else None,
    )
