"""Archives of evidence that nobody needs any more. What an open transaction is about stays."""

from __future__ import annotations

import time
from pathlib import Path

from b200kit.inventory.keys.kept import Kept
from b200kit.reprovision import transaction
from b200kit.reprovision.ledger import Transactions
from b200kit.run import kept
from b200kit.run.places import safe_name
from b200kit.store.database import StoreError


def prune(evidence: Path, transactions: Transactions, asked: Kept) -> str:
    """Remove what is too old or too much; returns a line about it, or nothing. Never raises.

    Only archives of nodes that the transactions know go, and none of a transaction that is open or
    that cannot be read: another site may need what this one does not know of.
    """
    going = kept.spare(kept.archives(evidence), asked, time.time())
    if not going:
        return ""
    try:
        known = {safe_name(node): node for node in transactions.nodes()}
    except StoreError as error:
        return str(error)
    needed_from = {
        folder: _needed_from(transactions, node)
        for folder, node in known.items()
        if folder in {leaving.of for leaving in going}
    }
    done = [leaving for leaving in going if leaving.at < needed_from.get(leaving.of, 0.0)]
    return kept.remove(done, asked, "archives")


def _needed_from(transactions: Transactions, node: str) -> float:
    """When a node's transaction was opened; endless for none, never for one that is damaged."""
    try:
        tx = transactions.read(node)
        return transaction.seconds(tx.opened) if tx.is_open else float("inf")
    except (StoreError, ValueError):
        return float("-inf")
