"""What is going to be done about a node, as its operator reads it before and after."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.inventory.keys.levels import Level
from b200kit.reprovision import circuit_breaker, escalation, transaction
from b200kit.reprovision.circuit_breaker import FleetState
from b200kit.reprovision.escalation import Decision
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import Node, duration

# Seconds of the steps that are no level, where this node has no history (inferred, from the lab).
_STEP_S = {"quarantine": 2, "evidence": 20, "provision": 300, "prove": 10, "share": 2}


def lines(
    node: Node, tx: Transaction, decision: Decision, fleet: FleetState, serves: bool
) -> Iterator[str]:
    """The plan of a node that is to be taken out: steps and level; why; its cost, and whether."""
    limits = node.spec.reprovision
    ending = (
        ["quarantined"]
        if decision.level is Level.REPLACE or decision.missing
        else ["prove", f"canary {node.spec.rollout.share_percent} %", "serving"]
    )
    drain = f"drain (deadline {duration(limits.repair_drain_s)})"
    yield " -> ".join(["serving", drain, "evidence", decision.text, *ending])
    others = [line for line in decision.passed if line not in decision.why]
    passed = f" ({'; '.join(others)})" if others else ""
    yield f"  why: {decision.why}{passed}"
    of = f"{fleet.nodes} node{'s'[: fleet.nodes != 1]}"
    cost = f"costs {int(serves)} of {of} for {_how_long(node, tx, decision)}"
    is_open = bool(circuit_breaker.open_reason(fleet)) and "the breaker is open"
    refused = is_open or circuit_breaker.floor_reason(fleet, node.name, serves)
    yield f"  {cost}; floor is {fleet.least}: {'NOT ALLOWED: ' + refused if refused else 'allowed'}"


def _how_long(node: Node, tx: Transaction, decision: Decision) -> str:
    """From this node's own history where it has been through it, else the budget."""
    measured = transaction.durations(tx)
    action = f"action: {decision.level.word}"
    if action in measured:
        return f"~{duration(sum(measured.values()))} (as it took before)"
    limits = node.spec.reprovision
    if decision.level is Level.REPLACE or decision.missing:
        return "as long as the manual repair takes"
    level = getattr(limits.deadlines, decision.level.key)
    rest = sum(_STEP_S.values()) + limits.repair_drain_s + node.spec.rollout.watch_s
    return f"at most ~{duration(level + rest)} (its deadlines; not measured on this node yet)"


def missing_line(decision: Decision) -> str:
    """What a level needs that nobody has configured, and the three ways on."""
    word = decision.level.word
    return (
        f"{decision.why}. The next level is {word}, and {decision.missing}; a new image does not "
        f"follow, as it wipes the disk. It stays out of service: configure {word} and run again; "
        "or do it by hand and run with --data reprovision_action=return; or request "
        "--data reprovision_action=reimage"
    )


def continued(tx: Transaction, node: Node, fit: bool) -> str:
    """What a run does with a node that an earlier one took out."""
    if tx.state is RepairState.MANUAL and node.spec.reprovision_action != "return":
        if fit:
            return f"{repair_line(tx)}; it looks fit now: reprovision_action=return brings it back"
        return f"{repair_line(tx)}; nothing to do before its manual repair"
    since = f"; {tx.owner.who} holds it since {tx.owner.at}" if tx.owner else ""
    return f"{tx.underway}, out since {tx.opened}{since}: continues from there"


def repair_line(tx: Transaction) -> str:
    """Who quarantined the node since when, which part it needs, and where the evidence is."""
    what = escalation.manual_repair_text(tx.parts)
    why = f": {tx.decision.why}" if tx.decision else ""
    mark = f" since {tx.quarantine.when} by {tx.quarantine.who}" if tx.quarantine else ""
    proof = f"; evidence: {tx.evidence.path}" if tx.evidence else ""
    return f"quarantined{mark}: {what}{why}{proof}"


def came_back(tx: Transaction) -> str:
    """What it took."""
    levels = [
        taken.action.removeprefix("action: ") for taken in tx.steps if "action:" in taken.action
    ]
    if not tx.steps:
        return "serves"
    span = transaction.seconds(tx.steps[-1].at) - transaction.seconds(tx.opened)
    change = tx.changed and tx.changed.title
    return f"back after {duration(span)}: {', '.join(levels) or change or 'no action'}"
