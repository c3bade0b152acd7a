"""How a run of deploy/reprovision.py treats one node: look, plan, claim, reprovision, release."""

from __future__ import annotations

import time

from b200kit.inventory.keys.levels import Level
from b200kit.node.checks.serving import running
from b200kit.node.state.verdict import Finding
from b200kit.operations import observe
from b200kit.reprovision import circuit_breaker, escalation, node_copy, provision, steps
from b200kit.reprovision import explain as plans
from b200kit.reprovision.escalation import Attempt, Decision, EscalationLimits
from b200kit.reprovision.fleet_limits import SAFETY, Deferred
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.owner import ledger_of, owned, serves
from b200kit.reprovision.reachable import unreachable
from b200kit.reprovision.state_machine import StateMachine
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node
from b200kit.run.session import RUN

# What the transaction itself puts on the node is no fault to repair.
_OURS = ("quarantine.mark",)


class Repair:
    """The repair of one node of a run; its operations stand in deploy/reprovision.py."""

    def __init__(self, node: Node) -> None:
        self.node = node
        # What keeps it from serving, the cause first, and attempts that only the node remembers.
        self.findings: tuple[Finding, ...] = ()
        self._attempts: tuple[Attempt, ...] = ()

    def look(self, lock: bool) -> None:
        """Judge the node, say what would be done, and count it among those that fail."""
        SAFETY.inventory = RUN.inventory
        node = self.node
        try:
            self._look(lock)
        finally:
            reason = SAFETY.mark_observed(node, serves(node))
            if reason and not lock:
                node.say("plan", reason)

    def _look(self, lock: bool) -> None:
        node, tx = self.node, ledger_of(self.node).read()
        self.findings = _findings(node, lock)
        if tx.is_open:
            node.record.reprovision = tx.report()
            node.say("plan", plans.continued(tx, node, fit=not self.findings))
            return
        if self._is_left_alone("plan", "fit"):
            return
        SAFETY.report(node.name, circuit_breaker.cause(self.findings))
        for line in plans.lines(node, tx, self._decision(tx), SAFETY.fleet(node), serves(node)):
            node.say("plan", line)

    def reprovision(self) -> None:
        """Take the node through its transaction."""
        node = self.node
        if node.record.outcome is not None:
            return
        before = ledger_of(node).read()
        if _awaits_repair(node, before):
            _end(node, before)
            return
        try:
            if self._may_begin(before):
                _end(node, self._through(ledger_of(node)))
        except Deferred as reason:
            node.fail("reprovision", str(reason), outcome="unfit")
        finally:
            SAFETY.leave(node.name, serves(node))

    def _may_begin(self, before: Transaction) -> bool:
        """A node that is out continues; one that is not waits for its turn and is observed."""
        node = self.node
        if before.is_open:
            SAFETY.resume(node.name)
            return True
        waited = SAFETY.enter(node, serves(node))
        if waited or node.unreachable:
            # What was observed is old; and one that did not answer may only have been booting.
            node.state = None
            self.findings = _findings(node, lock=True)
        return not self._is_left_alone("reprovision", "fit by now")

    def _through(self, ledger: Ledger) -> Transaction:
        """As its one owner, from where its transaction is to where this run can take it."""
        node = self.node

        def begin() -> None:
            cause = circuit_breaker.cause(self.findings)
            ledger.begin(self.findings, cause, node.spec.reason or "")

        with owned(node, ledger) as (tx, self._attempts):
            if not tx.is_open:
                SAFETY.take_out(node, serves(node), begin)
            back = node.spec.reprovision_action == "return"
            machine = StateMachine(node, ledger, steps.handler_for, self._decision, releasing=back)
            return machine.run()

    def _is_left_alone(self, stage: str, fit: str) -> bool:
        """Whether nothing is to be done: it is fit, or all that is wrong is that it is not warm."""
        node, findings = self.node, self.findings
        if _is_requested(node) or any(f.check != running.STARTING for f in findings):
            return False
        if findings:
            node.fail(stage, f"{findings[0].summary}: left alone", outcome="unmeasured")
        else:
            node.record.outcome = "fit"
            node.say(stage, f"{fit}: nothing to do")
        return True

    def _decision(self, tx: Transaction) -> Decision:
        node, findings = self.node, tx.findings if tx.is_open else self.findings
        attempts = node_copy.merged(tx.attempts, self._attempts)
        return escalation.choose(findings, attempts, limits(node), time.time(), _least(node))


def _awaits_repair(node: Node, tx: Transaction) -> bool:
    """Whether it awaits manual repair and nobody says that it is done."""
    requested = node.spec.reprovision_action
    return tx.state is RepairState.MANUAL and tx.pending is None and requested != "return"


def _end(node: Node, tx: Transaction) -> None:
    """The outcome: live, or quarantined until a person has repaired it."""
    node.record.reprovision = tx.report()
    if tx.is_open:
        node.fail("reprovision", plans.repair_line(tx), outcome="quarantined")
        return
    node.record.outcome = "live"
    node.say("LIVE", plans.came_back(tx))


def _findings(node: Node, lock: bool) -> tuple[Finding, ...]:
    """What keeps the node from serving, the cause first."""
    if node.unreachable and (fault := unreachable(node)):
        return (fault,)
    observe.refresh(node, RUN.id, lock)
    return tuple(f for f in provision.judged(node, fresh=False).blocking if f.check not in _OURS)


def _is_requested(node: Node) -> bool:
    """Whether a person requests reprovisioning of a node that looks well."""
    return bool(node.spec.reason) or node.spec.reprovision_action not in ("auto", "return")


def _least(node: Node) -> Level:
    requested = node.spec.reprovision_action
    lowest = requested in ("auto", "return")
    return Level.RESTART_SERVICES if lowest else Level.parse(requested)


def limits(node: Node) -> EscalationLimits:
    """The node's budgets, and the levels its inventory does not have."""
    budgets = node.spec.reprovision.budgets
    unavailable = {}
    if node.spec.bmc is None:
        unavailable[Level.POWER_CYCLE] = "the inventory names no bmc"
    if node.spec.reimage is None:
        unavailable[Level.REIMAGE] = "the inventory names no reimage"
    attempts: dict[Level, int] = {
        r: getattr(budgets, r.key) for r in Level if r is not Level.REPLACE
    }
    return EscalationLimits(attempts, budgets.window_s, unavailable)
