"""A node is brought up by its pipeline, on trial: repaired, changed, or as it was before."""

from __future__ import annotations

from b200kit.inventory.keys.levels import MIN_LEVEL
from b200kit.inventory.served import NoWayBack
from b200kit.node.lib.documents import structure
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.node.state.watchdog import MARK
from b200kit.reprovision import former, provision, traffic
from b200kit.reprovision.actions import Say, quarantine
from b200kit.reprovision.ledger_line import DoneLine, IntentLine
from b200kit.reprovision.planned_change import BY_CHANGE
from b200kit.reprovision.reachable import require_answer, unreachable
from b200kit.reprovision.state_machine import NotFit
from b200kit.reprovision.traffic import haproxy
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError


def repaired(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """All that deploy/b200.py does, while nobody is sent there."""
    try:
        return _bring_up(node, tx, intent, say)
    except (StageFailed, RemoteError) as error:
        raise cause_of(node, error) from None


def changed(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """The same with what the inventory asks now; whatever fails, the change is not good."""
    require_answer(node)
    if not tx.in_place:
        # Nobody is sent there any more: what serves ends at once, and starts at once.
        say(quarantine.close(node))
    try:
        return _bring_up(node, tx, intent, say)
    except (StageFailed, RemoteError) as error:
        raise _failure(node, error) from None


def rolled_back(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    """The same with what the node served before."""
    if tx.change is None:
        raise StageFailed("it was not changed")
    try:
        former.way_back(node.inventory_spec, tx.change)
    except NoWayBack as error:
        found = (_finding(f"cannot be rolled back: {error}"),)
        raise NotFit(found[0].summary, found) from None
    return changed(node, tx, intent, say)


def _bring_up(node: Node, tx: Transaction, intent: IntentLine, say: Say) -> DoneLine:
    require_answer(node)
    who = intent.who

    def admit() -> None:
        say(quarantine.admit(node, who))

    if not tx.in_place:
        # A new image has no mark; one that is there stays as it was.
        quarantine.put(node, who, why_of(tx))
        admit()
    # The watchdog's mark is what the transaction was about; it is in the evidence.
    node.connected().run(f"rm -f {MARK}")
    before = node.record.changes
    if tx.in_place:
        provision.run(node, after_boot=lambda: None)
    else:
        provision.run(node, after_boot=admit, after_gateway=lambda: _set_apart(node))
    if node.record.outcome is not None:
        reason, verdict = str(node.record.error), node.record.verdict
        found = tuple(structure(Verdict, verdict).blocking) if verdict else ()
        node.record.reset()
        raise NotFit(reason, found)
    changes = node.record.changes - before
    return DoneLine(result=f"{changes} change{'s'[: changes != 1]}")


def _set_apart(node: Node) -> None:
    """Only where the way back brings it in again."""
    if haproxy.TRAFFIC in traffic.adapters(node):
        haproxy.set_apart(node)


def _failure(node: Node, error: Exception) -> NotFit:
    """A stage that failed under a change, by what of the node explains it or by its own words."""
    if isinstance(error, NotFit):
        return error
    cause = cause_of(node, error)
    return cause if isinstance(cause, NotFit) else NotFit(str(error), (_finding(str(error)),))


def _finding(text: str) -> Finding:
    return Finding(text, Status.FAIL, check=BY_CHANGE)


def cause_of(node: Node, error: Exception) -> Exception:
    """Whether a stage failed because of the node, which an action may cure, or otherwise."""
    if isinstance(error, NotFit):
        return error
    if fault := unreachable(node):
        return NotFit(str(error), (fault,))
    try:
        # That nothing serves is what a failed stage leaves, and no cause of it.
        found = provision.judged(node).blocking
        blocking = tuple(f for f in found if not f.check.startswith("serving."))
    except (StageFailed, RemoteError) as also:
        return StageFailed(f"{error}; and it could not be judged: {also}")
    if any(finding.action in MIN_LEVEL for finding in blocking):
        return NotFit(str(error), blocking)
    return StageFailed(str(error))


def why_of(tx: Transaction) -> str:
    """Why the node is out, in a line."""
    if tx.change and not tx.change.outcome:
        return f"rollout: {tx.change.title}"
    quarantined = tx.quarantine.why if tx.quarantine else ""
    first = tx.findings[0].summary if tx.findings else tx.why
    return first or quarantined or "requested by a person"
