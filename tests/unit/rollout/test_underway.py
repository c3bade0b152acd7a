"""What the transactions of a fleet say of its nodes, for a look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.reprovision.ledger import LOG, Ledger, Transactions
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.planned_change import PlannedChange
from b200kit.rollout import underway
from b200kit.store.database import Store
from tests.messages import TIME, assert_message

CHANGE = PlannedChange("driver 580.142.07", "digest", wave=2, waves=7)


@pytest.fixture
def transactions(tmp_path: Path) -> Transactions:
    """Those of a site."""
    return Transactions(Store(tmp_path / "b200.db"))


def begun(transactions: Transactions, node: str, change: PlannedChange | None = None) -> Ledger:
    """A node that somebody has taken out, and works on."""
    lines = Ledger(transactions, node, who="ops@b1", run="r1")
    lines.claim()
    lines.begin([], "change" if change else "nvlink.links", "", change)
    return lines


def test_a_node_that_is_changed_by_a_run_that_lives_is_planned_work(
    transactions: Transactions,
) -> None:
    lines = begun(transactions, "n1", CHANGE)
    planned, rollouts = underway.of(transactions, ["n1", "n2"])
    assert [(name, one.change, one.damaged) for name, one in planned.items()] == [
        ("n1", True, False)
    ]
    assert_message(planned["n1"].text, *rollouts, TIME=TIME)
    lines.release()
    assert not underway.of(transactions, ["n1"])[0]["n1"].change


def test_a_repair_is_said_and_excuses_no_fault(transactions: Transactions) -> None:
    begun(transactions, "n1")
    planned, rollouts = underway.of(transactions, ["n1"])
    assert not planned["n1"].change
    assert rollouts == []


def test_lines_that_are_damaged_cost_their_own_node(transactions: Transactions) -> None:
    begun(transactions, "n1", CHANGE).release()
    transactions.store.append(LOG, "n2", "{half")
    planned, _ = underway.of(transactions, ["n1", "n2"])
    assert [name for name, one in planned.items() if one.damaged] == ["n2"]


def test_a_store_that_is_gone_is_missed(transactions: Transactions) -> None:
    assert underway.of(transactions, ["n1"])[0] == {}
    begun(transactions, "n1").release()
    transactions.store.path.unlink()
    assert underway.of(transactions, ["n1"])[0]["n1"].damaged


def test_lines_that_were_added_are_read(transactions: Transactions) -> None:
    lines = begun(transactions, "n1", CHANGE)
    before = underway.of(transactions, ["n1"])[0]
    lines.append(IntentLine(step="quarantine", id="x", why="x"))
    assert underway.of(transactions, ["n1"])[0] != before
