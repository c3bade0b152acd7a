"""How a run of deploy/b200.py treats a node that serves and that a change would interrupt.

It waits for its wave, is drained, changed, proven, measured, returned and watched, as one
transaction of b200kit/reprovision. Where the change is bad the node goes back to what it served.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gevent  # type: ignore[import-untyped]

from b200kit.inventory import served as documents
from b200kit.inventory.served import NoWayBack
from b200kit.node.state.verdict import Finding
from b200kit.operations import dry_run, gate, steps
from b200kit.reprovision import explain as plans
from b200kit.reprovision import former, traffic
from b200kit.reprovision.actions import quarantine
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.fleet_limits import SAFETY, Deferred
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import AbortLine
from b200kit.reprovision.owner import is_set_aside, ledger_of, owned, serves
from b200kit.reprovision.planned_change import PlannedChange, Work
from b200kit.reprovision.reachable import unreachable
from b200kit.reprovision.state_machine import StateMachine
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.steps import handler_for
from b200kit.reprovision.transaction import Transaction
from b200kit.rollout.entries import ENTRIES, Entries, WaitingNode
from b200kit.rollout.turns import NotChanged, Turns, stopped_line
from b200kit.run import process
from b200kit.run.node import Node, StageFailed
from b200kit.run.session import RUN
from b200kit.stages import served, storage

STAGE = "rollout"
_TITLED = 2
_POLL_S = 0.2
# What each node's turn comes to; greenlets end with the process, threads would keep it.
_BEGUN: dict[str, Any] = {}
_SERVING = ("live", "held", "rolled back")


def plan(node: Node, entries: Entries) -> None:
    """Find out whether a change would interrupt what the node serves; if so, it waits."""
    SAFETY.inventory = RUN.inventory
    try:
        if entry := _entry(node, entries):
            entries.waiting[node.name] = entry
    finally:
        SAFETY.mark_observed(node, serves(node))
        entries.planned.add(node.name)


def _entry(node: Node, entries: Entries) -> WaitingNode | None:
    tx = SAFETY.transactions.read(node.name)
    if tx.is_open and tx.change and not tx.change.outcome:
        return _continued(node, tx, tx.change.title)
    steps.observed(node)
    changes = dry_run.foresee(node)
    ends = {unit for change in changes for unit in change.ends}
    found = dry_run.interruption(node, ends)
    apart = any(change.drained for change in changes) and traffic.elsewhere(node)
    # Nobody loses by a change where a person has drained all, and nothing can be measured there.
    if not (found or apart) or not serves(node) or is_set_aside(node):
        return None
    before = served.on_node(node)
    title = _title(node, before) or "; ".join(change.what for change in changes[:_TITLED])
    if reason := _refusal(node, title, entries):
        node.fail(STAGE, reason, outcome="held")
        return None
    final = tuple(change.what for change in changes if change.final)
    whole = any(dry_run.interruption(node, change.ends).whole for change in changes if change.ends)
    in_place = not whole and not traffic.elsewhere(node)
    # Models lie where the stage before puts them.
    ahead = not storage.STAGE.plan(node)
    measures = all(change.measures for change in changes)
    return WaitingNode(node, title, in_place, measures, final, before, ahead)


def _title(node: Node, before: dict[str, object] | None) -> str:
    if before is None:
        return ""
    return "; ".join(documents.differences(before, served.document(node.spec)))


def _refusal(node: Node, title: str, entries: Entries) -> str:
    """Why the node is not to be changed in this run at all."""
    action = node.spec.rollout_action
    if action == "abort":
        return "not changed, it serves what it served: the rollout is given up"
    bad = entries.history().bad(title) if action == "auto" else None
    change = SAFETY.transactions.read(bad).change if bad else None
    return stopped_line(str(bad), change.failed) if change else ""


def _continued(node: Node, tx: Transaction, title: str) -> WaitingNode | None:
    """An earlier run took it out; what is left for a repair is not for this run."""
    if tx.work is Work.REPAIR:
        node.record.reprovision = tx.report()
        node.fail(STAGE, left_out_line(tx), outcome="quarantined")
        return None
    steps.observed(node)
    return WaitingNode(node, title, continues=True)


def change(node: Node) -> None:
    """Wait for the node's wave, and for what comes of it; raises what its turn raised.

    All turns begin with the first: pyinfra runs as many hosts at once as its pool has places, and
    those that wait must keep none from a node whose wave has come.
    """
    while not all(n.record.outcome or name in ENTRIES.planned for name, n in RUN.nodes.items()):
        time.sleep(_POLL_S)
    if not _BEGUN:
        _BEGUN.update({e.node.name: gevent.spawn(_kept, e.node) for e in ENTRIES.waiting.values()})
    if error := _BEGUN[node.name].get():
        raise error


def _kept(node: Node) -> Exception | None:
    """What the node's turn raised."""
    try:
        _turn(node)
    except Exception as error:
        return error
    return None


def _turn(node: Node) -> None:
    """Wait for the node's wave, then change it."""
    entry = ENTRIES.waiting[node.name]
    if node.record.outcome is not None:
        return
    turns, bad = _turns(), "it did not come to its end"
    try:
        waited = turns.wait(node.name)
        _wait_for_head(node, turns)
        bad = _change(node, entry, turns, waited)
    except (NotChanged, Deferred) as reason:
        bad = ""
        node.fail(STAGE, str(reason), outcome="held")
    except StageFailed as error:
        bad = str(error)
        raise
    finally:
        turns.leave(node.name, bad)
        SAFETY.leave(node.name, node.record.outcome in _SERVING)


def _turns() -> Turns:
    """The waves; nodes that came live before the first serve by now."""
    for name, node in RUN.nodes.items():
        if node.record.outcome == "live":
            SAFETY.leave(name, True)
    return ENTRIES.turns(RUN.nodes)


def _wait_for_head(node: Node, turns: Turns) -> None:
    """A node that works for another is stopped once that one is drained: its streams end here, too.

    Raises NotChanged where that one is not taken out in this run.
    """
    head = node.spec.group.head if node.spec.group and node.headless else None
    if head is None:
        return
    if head not in ENTRIES.waiting:
        raise NotChanged(f"not changed: it works for {head}, which this run does not take out")
    while not _is_drained(head):
        if head in turns.ended or RUN.nodes[head].record.outcome:
            raise NotChanged(f"not changed: it works for {head}, which was not drained")
        time.sleep(_POLL_S)


def _is_drained(name: str) -> bool:
    tx = SAFETY.transactions.read(name)
    return tx.is_open and tx.state not in (RepairState.SERVING, RepairState.QUARANTINED)


def _change(node: Node, entry: WaitingNode, turns: Turns, waited: bool) -> str:
    """Take the node through its transaction; returns why the change was not good, if so."""
    if waited:
        node.state = None
    if not entry.continues and (fault := unreachable(node)):
        node.fail(STAGE, f"{fault.summary}: {fault.read}", outcome="unreachable")
        return ""
    ledger = ledger_of(node)
    with owned(node, ledger) as (tx, _):
        if not tx.is_open:
            found = _found_before(node, entry)
            SAFETY.take_out(node, True, lambda: _begin(ledger, entry, turns, found))
        elif node.spec.rollout_action == "abort":
            ledger.append(AbortLine(why=f"given up by {process.owner()}"))
        machine = StateMachine(node, ledger, handler_for, _no_repair, repairs=False)
        return _end(node, machine.run())


def _found_before(node: Node, entry: WaitingNode) -> tuple[Finding, ...]:
    """What is wrong with it as it serves now: if it stays, the change has not made it."""
    try:
        node.spec = served.restored(node.inventory_spec, entry.before)
    except NoWayBack:
        return ()
    try:
        node.state = None
        return tuple(gate.judged(node, steps.observed, serving=True).blocking)
    finally:
        node.spec, node.state = node.inventory_spec, None


def _begin(ledger: Ledger, entry: WaitingNode, turns: Turns, found: Sequence[Finding]) -> None:
    node = entry.node
    change = PlannedChange(
        title=entry.title,
        target=former.target(node.inventory_spec),
        before=entry.before,
        wave=turns.number(node.name),
        waves=len(turns.waves),
        in_place=entry.in_place,
        measures=entry.measures,
    )
    ledger.begin(found, "", entry.title, change)


def _no_repair(tx: Transaction) -> Decision:
    raise StageFailed(f"{tx.node} needs a repair, which a rollout does not make")


def _end(node: Node, tx: Transaction) -> str:
    """The outcome: live, as it was before, or out of service. Returns why the change was bad."""
    change = tx.change
    if change is None:
        raise StageFailed("it was not changed")
    if tx.is_open:
        _leave_out(node, tx)
        node.fail(STAGE, left_out_line(tx), outcome="quarantined")
        return "" if change.own else change.failed
    node.record.withdrawn = None
    if change.outcome != "done":
        node.fail(STAGE, rolled_back_line(change), outcome="rolled back")
        return change.failed
    node.record.outcome = "live"
    node.say("LIVE", plans.came_back(tx))
    return ""


def _leave_out(node: Node, tx: Transaction) -> None:
    """Nothing serves there that is not proven, whatever the steps have left."""
    if unreachable(node) is None:
        quarantine.put(node, process.owner(), f"left out of the rollout: {tx.error}")
        quarantine.close(node)


def rolled_back_line(change: PlannedChange) -> str:
    """What the change did, and that the node serves again."""
    return (
        f"{change.failed}; without the change it is fit, so the change made it: rolled back, it "
        f"serves what it served before ({change.title})"
    )


def left_out_line(tx: Transaction) -> str:
    """Why a node stays out, whose fault it is, and what to do."""
    change = tx.change
    if change is None:
        return tx.error
    whose = "the machine's own fault" if change.own else "whose fault is not known"
    return (
        f"out of service since {tx.opened}: {change.failed}; {whose}: {change.lost}. "
        f"b200 repair {tx.node} repairs it with what it served before"
    )
