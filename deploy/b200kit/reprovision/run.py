"""How a run of deploy/reprovision.py treats one node: look, plan, claim, reprovision, release."""

from __future__ import annotations

import time

from b200kit.inventory.keys.levels import Level
from b200kit.node.checks.serving import running
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.verdict import Finding
from b200kit.operations import observe
from b200kit.reprovision import circuit_breaker, escalation, node_copy, provision, steps
from b200kit.reprovision import explain as plans
from b200kit.reprovision.escalation import Decision, Limits
from b200kit.reprovision.fleet_limits import SAFETY, Deferred
from b200kit.reprovision.ledger import Damaged, Ledger
from b200kit.reprovision.owner import ledger_of, owned, serves
from b200kit.reprovision.reachable import unreachable
from b200kit.reprovision.state_machine import StateMachine
from b200kit.reprovision.states import State
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node
from b200kit.run.session import RUN

# What the transaction itself puts on the node is no fault to repair.
_OURS = ("quarantine.mark",)


def look(node: Node, lock: bool) -> None:
    """Judge the node, say what would be done, and count it among those that fail."""
    SAFETY.inventory = RUN.inventory
    try:
        _look(node, lock)
    finally:
        reason = SAFETY.mark_observed(node, serves(node))
        if reason and not lock:
            node.say("plan", reason)


def _look(node: Node, lock: bool) -> None:
    tx = _transaction(node, ledger_of(node))
    node.findings = _findings(node, lock)
    if tx.is_open:
        node.reprovision = tx.to_json()
        node.say("plan", plans.continued(tx, node))
        return
    if _is_left_alone(node, "plan", "fit"):
        return
    SAFETY.report(node.name, circuit_breaker.cause(node.findings))
    for line in plans.lines(node, tx, _decision(node, tx), SAFETY.fleet(node), serves(node)):
        node.say("plan", line)


def reprovision(node: Node) -> None:
    """Take the node through its transaction."""
    if node.outcome is not None:
        return
    ledger = ledger_of(node)
    before = _transaction(node, ledger)
    if _awaits_repair(node, before):
        _end(node, before)
        return
    try:
        if not _may_begin(node, before):
            return
        _end(node, _through(node, ledger))
    except Deferred as reason:
        node.fail("reprovision", str(reason), outcome="unfit")
    finally:
        SAFETY.leave(node.name, serves(node))


def _transaction(node: Node, ledger: Ledger) -> Transaction:
    """Where it stands; where its file does not say, a person may have it started again."""
    try:
        return ledger.read()
    except Damaged:
        if not node.spec.reason:
            raise
        return Transaction(node.name)


def _may_begin(node: Node, before: Transaction) -> bool:
    """A node that is out already continues; one that is not waits for its turn and is observed."""
    if before.is_open:
        SAFETY.resume(node.name)
        return True
    waited = SAFETY.enter(node, serves(node))
    if waited or node.unreachable:
        # What was observed of it is old; and one that did not answer may only have been booting.
        node.state = None
        node.findings = _findings(node, lock=True)
    return not _is_left_alone(node, "reprovision", "fit by now")


def _through(node: Node, ledger: Ledger) -> Transaction:
    """As its one owner, from where its transaction is to where this run can take it."""
    reopen = (lambda: _begin(node, ledger)) if node.spec.reason else None
    with owned(node, ledger, reopen) as tx:
        if not tx.is_open:
            SAFETY.take_out(node, serves(node), lambda: _begin(node, ledger))
        return _machine(node, ledger).run()


def _begin(node: Node, ledger: Ledger) -> None:
    found = [unstructure(finding) for finding in node.findings]
    ledger.begin(found, circuit_breaker.cause(node.findings), node.spec.reason or "")


def _awaits_repair(node: Node, tx: Transaction) -> bool:
    """Whether it awaits manual repair and nobody says that it is done."""
    requested = node.spec.reprovision_action
    return tx.state is State.MANUAL and tx.pending is None and requested != "return"


def _machine(node: Node, ledger: Ledger) -> StateMachine:
    return StateMachine(
        node,
        ledger,
        steps.handler_for,
        lambda tx: _decision(node, tx),
        releasing=node.spec.reprovision_action == "return",
    )


def _end(node: Node, tx: Transaction) -> None:
    """The outcome: live, or quarantined until a person has repaired it."""
    node.reprovision = tx.to_json()
    if tx.is_open:
        node.fail("reprovision", plans.repair_line(tx), outcome="quarantined")
        return
    node.outcome = "live"
    node.say("LIVE", plans.came_back(tx))


def _findings(node: Node, lock: bool) -> tuple[Finding, ...]:
    """What keeps the node from serving, the cause first."""
    if node.unreachable and (fault := unreachable(node)):
        return (fault,)
    observe.refresh(node, RUN.id, lock)
    return tuple(f for f in provision.judged(node, fresh=False).blocking if f.check not in _OURS)


def _is_left_alone(node: Node, stage: str, fit: str) -> bool:
    """Whether nothing is to be done: it is fit, or all that is wrong is that it is not warm yet."""
    if _is_requested(node) or any(f.check != running.STARTING for f in node.findings):
        return False
    if node.findings:
        node.fail(stage, f"{node.findings[0].summary}: left alone", outcome="unmeasured")
    else:
        node.outcome = "fit"
        node.say(stage, f"{fit}: nothing to do")
    return True


def _decision(node: Node, tx: Transaction) -> Decision:
    findings = tx.findings if tx.is_open else node.findings
    attempts = node_copy.merged(tx.attempts, node.attempts_on_node)
    return escalation.choose(findings, attempts, limits(node), time.time(), _least(node))


def _is_requested(node: Node) -> bool:
    """Whether a person requests reprovisioning of a node that looks well."""
    return bool(node.spec.reason) or node.spec.reprovision_action not in ("auto", "return")


def _least(node: Node) -> Level:
    requested = node.spec.reprovision_action
    lowest = requested in ("auto", "return")
    return Level.RESTART_SERVICES if lowest else Level.parse(requested)


def limits(node: Node) -> Limits:
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
    return Limits(attempts, budgets.window_s, unavailable)
