"""Archives of evidence: those of an open transaction stay, whatever their age."""

from __future__ import annotations

import os
import time
from pathlib import Path

from b200kit.inventory.keys.kept import Kept
from b200kit.reprovision.actions.evidence import prune
from b200kit.reprovision.ledger import LOG, Ledger, Transactions
from b200kit.store.database import Store

DAY_S = 86_400
ASKED = Kept(days=30, gib=1, least=1)


def archive(folder: Path, node: str, days: float) -> Path:
    """An archive of some days ago."""
    path = folder / node / f"{days}.tar.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (time.time() - days * DAY_S,) * 2)
    return path


def left(evidence: Path) -> set[str]:
    """What is left, by node and age."""
    return {f"{path.parent.name}/{path.name}" for path in evidence.rglob("*.tar.gz")}


def claimed(transactions: Transactions, node: str) -> Ledger:
    """A node's transaction, as its owner writes it."""
    owned = Ledger(transactions, node, "ops", "r")
    owned.claim()
    return owned


def test_archives_go_but_those_of_open_damaged_and_unknown_transactions(tmp_path: Path) -> None:
    evidence, transactions = tmp_path / "evidence", Transactions(Store(tmp_path / "b200.db"))
    for node in ("closed", "open", "damaged", "unknown"):
        for days in (0, 40, 50):
            archive(evidence, node, days)
    for node in ("closed", "open"):
        claimed(transactions, node).release()
    transactions.store.append(LOG, "damaged", '{"kind": "open"}')
    transaction = claimed(transactions, "open").begin([], "", "")
    assert transaction.is_open
    archive(evidence, "open", -1)
    line = prune(evidence, transactions, ASKED)
    assert "removed 4 archives" in line
    gone = {f"{node}/{days}.tar.gz" for node in ("closed", "open") for days in (40, 50)}
    assert not gone & left(evidence)
    assert len(left(evidence)) == 13 - 4


def test_archive_of_an_open_transaction_stays_however_old_and_large(tmp_path: Path) -> None:
    evidence, transactions = tmp_path / "evidence", Transactions(Store(tmp_path / "b200.db"))
    claimed(transactions, "n1").begin([], "", "")
    kept = [archive(evidence, "n1", -day).name for day in (1, 2, 3)]
    assert prune(evidence, transactions, Kept(days=1, gib=0.01, least=1)) == ""
    (evidence / "n1" / "big.tar.gz").write_bytes(b"")
    os.truncate(evidence / "n1" / "big.tar.gz", 1 << 30)
    os.utime(evidence / "n1" / "big.tar.gz", (time.time() + 9,) * 2)
    assert prune(evidence, transactions, Kept(days=1, gib=0.01, least=1)) == ""
    assert len(left(evidence)) == len(kept) + 1
