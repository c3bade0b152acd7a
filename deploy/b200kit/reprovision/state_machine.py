"""The machine that takes one node through its transaction, step by step, each on the disk first.

It knows the table of steps and nothing of what they do: each has a handler with `facts`, `probe`
and `perform` (see b200kit/reprovision/actions). A step that a dead controller left open is probed,
then done.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from b200kit.inventory.keys.levels import Level
from b200kit.node.state.verdict import Finding
from b200kit.reprovision import circuit_breaker, states
from b200kit.reprovision import explain as plans
from b200kit.reprovision.actions import ActionFailed, ActionRefused, Say
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import ClosingLine, DoneLine, FailedLine, IntentLine
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError

# Where a person may say that no action is needed any more.
_RETURNABLE = (
    RepairState.QUARANTINED,
    RepairState.DRAINED,
    RepairState.EVIDENCED,
    RepairState.MANUAL,
)


class NotFit(StageFailed):
    """The node is not fit after what was done: the next level is chosen by these findings."""

    def __init__(self, line: str, findings: tuple[Finding, ...]) -> None:
        super().__init__(line)
        self.findings = findings


class Stopped(StageFailed):
    """The run ends here for this node, which stays where it stands; one line."""


class StepHandler(Protocol):
    """What a step does. `perform` returns the line that ends it."""

    def facts(self, node: Node) -> dict[str, Any]:
        """Fields that the intent keeps."""

    def probe(self, node: Node, intent: IntentLine) -> str | None:
        """Whether it was done before the controller died."""

    def perform(self, node: Node, intent: IntentLine, say: Say) -> DoneLine:
        """Do it."""


@dataclass
class StateMachine:
    """One node, its ledger, and the handlers of its steps."""

    node: Node
    ledger: Ledger
    handlers: Callable[[str, Transaction], StepHandler]
    decide: Callable[[Transaction], Decision]
    releasing: bool = False
    # Whether a node that neither the change nor the way back brought to serve is repaired, too.
    repairs: bool = True
    _released: bool = field(default=False, init=False)

    def run(self) -> Transaction:
        """Continue until the node serves, or needs repair that is not ours. Raises Stopped."""
        tx = self.ledger.read()
        if self.releasing and tx.pending and tx.state in _RETURNABLE:
            given_up = "given up: a person brings it back"
            tx = self._close(tx, FailedLine(result=given_up, back=False))
        while name := self._next(tx):
            # Whoever interrupts the run in this step reads that the node is out of service.
            self.node.record.reprovision = tx.report()
            tx = self._take(tx, name)
        return tx

    def _next(self, tx: Transaction) -> str | None:
        if not tx.is_open or (tx.work is Work.REPAIR and not self.repairs):
            return None
        if tx.pending:
            return tx.pending.step
        if self.releasing and not self._released and tx.state in _RETURNABLE:
            self._released = True
            return "release"
        if tx.state is RepairState.MANUAL:
            return None
        if tx.state is RepairState.EVIDENCED:
            decision = self.decide(tx)
            if decision.missing:
                raise Stopped(plans.missing_line(decision))
            if decision.level is Level.REPLACE:
                return "hand over"
        return states.onward(tx.state, tx.work).name

    def _take(self, tx: Transaction, name: str) -> Transaction:
        """One step: what is intended is on the disk before it is begun, what came of it after."""
        if tx.pending is None:
            tx = self._intend(tx, name)
            handler = self.handlers(name, tx)
        else:
            handler = self.handlers(name, tx)
            self._say(name, f"continues where {tx.pending.who} left it at {tx.pending.at}")
            if done := handler.probe(self.node, tx.pending):
                self._say(name, done)
                return self._close(tx, DoneLine(result=done))
        return self._perform(tx, name, handler)

    def _intend(self, tx: Transaction, name: str) -> Transaction:
        intent = IntentLine(step=name, id=secrets.token_hex(6), boot_id=self.node.boot_id)
        if name in ("action", "hand over"):
            decision = self.decide(tx)
            intent = replace(intent, decision=decision, why=decision.why)
        try:
            # As it will be with this intent: which step it is decides how it is done.
            handler = self.handlers(name, replace(tx, pending=intent))
            intent = replace(intent, **handler.facts(self.node))
        except (StageFailed, RemoteError) as error:
            raise Stopped(f"{intent.title}: {error}") from None
        return self.ledger.append(intent)

    def _perform(self, tx: Transaction, name: str, handler: StepHandler) -> Transaction:
        intent = tx.intent
        try:
            done = handler.perform(self.node, intent, lambda text: self._say(name, text))
        except NotFit as unfit:
            cause = circuit_breaker.cause(unfit.findings)
            tx = self._close(
                tx, FailedLine(result=str(unfit), findings=unfit.findings, cause=cause)
            )
            self._say(name, f"not fit: {unfit}")
            if self.releasing:
                raise Stopped(f"not fit, stays out: {unfit}") from None
            return tx
        except ActionRefused as refused:
            # Nothing was done to the node: the same attempt continues when the reason is gone.
            raise Stopped(f"{intent.title}: {refused}") from None
        except (StageFailed, RemoteError) as error:
            return self._failed(tx, intent, error)
        self._say(name, done.result)
        return self._close(tx, done)

    def _failed(self, tx: Transaction, intent: IntentLine, error: Exception) -> Transaction:
        """An action that failed is followed by the next level; any other step is repeated later."""
        if intent.level and isinstance(error, ActionFailed | RemoteError):
            self._say(intent.step, f"{intent.title} failed: {error}")
            return self._close(tx, FailedLine(result=str(error)))
        self._close(tx, FailedLine(result=str(error), back=False))
        raise Stopped(f"{intent.title}: {error}") from None

    def _close(self, tx: Transaction, line: ClosingLine) -> Transaction:
        return self.ledger.append(replace(line, id=tx.intent.id))

    def _say(self, name: str, text: str) -> None:
        if text:
            self.node.say(name, text)
