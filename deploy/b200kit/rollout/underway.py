"""What is under way with the nodes of a fleet, by their transactions: for lists and for a look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from b200kit.report.content.now.node import Planned
from b200kit.reprovision import explain, states, transaction
from b200kit.reprovision.ledger import Transactions
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import duration
from b200kit.store.database import StoreError


def line(transactions: Transactions, tx: Transaction) -> str:
    """How far a node's open transaction is, since when, whose it is, and what is next."""
    if tx.state is RepairState.MANUAL:
        return explain.repair_line(tx)
    return f"{tx.underway}, out since {tx.opened}{onward(tx)}; {_owner(transactions, tx)}"


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
    return planned, list(rollouts(found))


def rollouts(found: Sequence[Transaction]) -> Iterator[str]:
    """A line for each rollout that is not at its end: counts, and where it stopped."""
    changes = [(tx, tx.change) for tx in found if tx.change]
    titles = dict.fromkeys(c.title for tx, c in changes if tx.is_open or c.is_bad)
    for title in titles:
        those = [(tx, change) for tx, change in changes if change.title == title]
        done = sum(change.outcome == "done" for _, change in those)
        out = sum(tx.is_open for tx, _ in those)
        bad = [f"{tx.node} ({change.failed})" for tx, change in those if change.is_bad]
        stopped = f"; stopped at {', '.join(bad)}" if bad else ""
        wave = max(change.wave for _, change in those)
        waves = max(change.waves for _, change in those)
        yield f"rollout  {title}: wave {wave} of {waves}, {done} changed, {out} out{stopped}"


def onward(tx: Transaction) -> str:
    """What is next for a node that is changed, and how long that took when it was last done."""
    change = tx.change
    if change is None or tx.work is Work.REPAIR:
        return ""
    name = tx.pending.step if tx.pending else states.onward(tx.state, tx.work).name
    took = transaction.durations(tx).get(name)
    before = f" (it took {duration(took)})" if took else ""
    return f"; {tx.work.value}, wave {change.wave} of {change.waves}, next: {name}{before}"
