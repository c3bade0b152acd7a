"""A node's own copy of its transaction against the controller's file of it. Pure.

Each knows the other: the copy has the digest of the newest action of its day, and the file has a
line for each copy that the node took. So what is cut off either shows in the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.inventory.keys.levels import Level
from b200kit.reprovision import transaction
from b200kit.reprovision.transaction import Transaction

SCHEMA = "b200kit/reprovision/1"


def of_transaction(tx: Transaction) -> dict[str, Any]:
    """What of the copy is the transaction's."""
    return {
        "schema": SCHEMA,
        "tx": tx.id,
        "state": tx.state.value,
        "owner": tx.owner,
        "attempts": [
            {"level": t.level.word, "at": t.at, "outcome": t.outcome, "id": t.id}
            for t in tx.attempts
        ],
        "audit": tx.digests[-1] if tx.digests else None,
    }


def fault(lines: Sequence[Mapping[str, Any]], copy: object, run: str) -> str:
    """How the *copy* that *run* read from the node differs from the lines here; empty: not at all.

    Of that run's own lines nobody knows whether they were written before it read or after.
    """
    known = [digest for line in lines for digest in transaction.logged(line)]
    expected = _expected(lines, run)
    if copy is None:
        return f"the node has none, and action {expected[:10]} was copied to it" * bool(expected)
    if not isinstance(copy, Mapping) or copy.get("schema") != SCHEMA:
        return f"it cannot be read: {str(copy)[:80]}"
    digest = copy.get("audit")
    if digest not in known:
        return (
            f"it names action {str(digest)[:10]}, which is not in the node's file here: the end of "
            "the file was cut off, or another directory of transactions has it"
        )
    if expected and known.index(digest) < known.index(expected):
        return (
            f"it ends at action {digest[:10]}, and {expected[:10]} was copied to it later: an "
            "older one was put back, or it was read before that (run deploy/check.py)"
        )
    return _changed(lines, copy)


def _expected(lines: Sequence[Mapping[str, Any]], run: str) -> str:
    """The newest action that the node must know, where no new image took its copy away."""
    expected = ""
    for line in lines:
        if line.get("run") == run:
            continue
        if line.get("kind") == "intent" and line.get("level") == Level.REIMAGE.word:
            expected = ""
        expected = str(line.get("copied") or expected)
    return expected


def _changed(lines: Sequence[Mapping[str, Any]], copy: Mapping[str, Any]) -> str:
    """Which of its fields are not what the lines add up to, as far as it knows them."""
    tx = Transaction("")
    for line in lines:
        tx = transaction.applied(tx, line)
        if copy["audit"] in transaction.logged(line):
            break
    wrong = [key for key, value in of_transaction(tx).items() if copy.get(key) != value]
    return f"it was changed: {', '.join(wrong)}" if wrong else ""
