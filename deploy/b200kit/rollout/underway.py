"""What is under way with the nodes of a fleet, by their transactions: for lists and for a look."""

from __future__ import annotations

from collections.abc import Iterable

from b200kit.report.content.now.node import Planned
from b200kit.reprovision import explain
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.states import State
from b200kit.reprovision.transaction import Transaction
from b200kit.rollout import progress
from b200kit.store.database import StoreError


def line(transactions: Transactions, tx: Transaction) -> str:
    """How far a node's open transaction is, since when, whose it is, and what is next."""
    if tx.state is State.MANUAL:
        return explain.repair_line(tx)
    onward = progress.onward(tx)
    return f"{tx.underway}, out since {tx.opened}{onward}; {_owner(transactions, tx)}"


def _owner(transactions: Transactions, tx: Transaction) -> str:
    owner = tx.owner
    if owner is None:
        return "owned by nobody: the next run continues"
    name = f"{owner.who} since {owner.at}"
    if transactions.is_held(tx.node):
        return f"owned by {name}"
    return f"left by {name}, whose process is gone: the next run continues"


def of(transactions: Transactions, names: Iterable[str]) -> tuple[dict[str, Planned], list[str]]:
    """What is done with each of these nodes, and a line for each rollout of theirs."""
    planned: dict[str, Planned] = {}
    found: list[Transaction] = []
    for name in names:
        try:
            tx = transactions.read(name)
        except StoreError as error:
            planned[name] = Planned(str(error), damaged=True)
            continue
        found.append(tx)
        if tx.is_open:
            is_change = tx.work is not Work.REPAIR and transactions.is_held(name)
            planned[name] = Planned(line(transactions, tx), is_change)
    return planned, list(progress.lines(found))
