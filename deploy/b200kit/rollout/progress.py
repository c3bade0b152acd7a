"""How far rollouts are, by the transactions of the nodes that they changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from b200kit.reprovision import states, transaction
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import duration


def lines(found: Sequence[Transaction]) -> Iterator[str]:
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
