"""Archives of evidence that nobody needs any more. What an open transaction is about stays."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from b200kit.inventory.keys.kept import Kept
from b200kit.reprovision import ledger, transaction
from b200kit.run import kept
from b200kit.run.kept import Leaving
from b200kit.run.node import StageFailed
from b200kit.run.places import safe_name


def prune(evidence: Path, transactions: Path, asked: Kept) -> str:
    """Remove what is too old or too much; returns a line about it, or nothing. Never raises.

    Only archives of nodes that the transactions know go, and none of a transaction that is open or
    that cannot be read: another controller may need what this one does not know of.
    """
    going = kept.spare(kept.archives(evidence), asked, time.time())
    if not going:
        return ""
    try:
        known = set(ledger.nodes(transactions))
    except StageFailed as error:
        return str(error)
    needed_from = _needed_from(transactions)
    done = [leaving for leaving in going if _is_done(leaving, known, needed_from)]
    return kept.remove(done, asked, "archives")


def _is_done(leaving: Leaving, known: set[str], needed_from: Callable[[str], float]) -> bool:
    node = leaving.of
    return node in known and safe_name(node) == node and leaving.at < needed_from(node)


def _needed_from(transactions: Path) -> Callable[[str], float]:
    """When a node's transaction was opened; endless for none, never for one that is damaged."""

    @cache
    def opened(node: str) -> float:
        try:
            tx = ledger.read(transactions, node)
            return transaction.seconds(tx.opened) if tx.is_open else float("inf")
        except (StageFailed, ValueError):
            return float("-inf")

    return opened
