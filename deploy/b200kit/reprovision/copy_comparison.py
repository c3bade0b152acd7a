"""A node's own copy of its transaction against the controller's lines of it. Pure.

Each knows the other: the copy has the digest of the newest action of its day, and the lines have
one for each copy that the node took. So what is cut off either shows in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from b200kit.inventory.keys.levels import Level
from b200kit.node.lib.documents import Malformed, structure
from b200kit.reprovision.escalation import Attempt
from b200kit.reprovision.ledger_line import DoneLine, IntentLine, LedgerLine
from b200kit.reprovision.states import RepairState
from b200kit.reprovision.transaction import Transaction, applied
from b200kit.run.process import Process


@dataclass(frozen=True)
class CopiedTransaction:
    """What of the copy is the transaction's; *audit* is its newest line in the store.

    *owner* reprovisions the node since *since*; empty where nobody does.
    """

    tx: str
    state: RepairState
    owner: str
    since: str
    attempts: tuple[Attempt, ...]
    audit: str

    @classmethod
    def of(cls, tx: Transaction) -> CopiedTransaction:
        """What there is to know of a transaction."""
        owner, since = (tx.owner.who, tx.owner.at) if tx.owner else ("", "")
        return cls(tx.id, tx.state, owner, since, tx.attempts, tx.digest)


@dataclass(frozen=True)
class NodeCopy:
    """The copy: the transaction, when and by whom it was written, in which boot of the node."""

    schema: ClassVar[str] = "b200kit/reprovision/1"
    most_bytes: ClassVar[int] = 4 << 20

    transaction: CopiedTransaction
    at: str
    boot_id: str | None
    process: Process
    boots_within_s: float


def fault(lines: Sequence[LedgerLine], copy: object, run: str) -> str:
    """How the *copy* that *run* read from the node differs from the lines here; empty: not at all.

    Of that run's own lines nobody knows whether they were written before it read or after.
    """
    known = [line.digest for line in lines]
    expected = _expected(lines, run)
    if copy is None:
        return f"the node has none, and action {expected[:10]} was copied to it" * bool(expected)
    try:
        copied = structure(NodeCopy, copy).transaction
    except Malformed as error:
        return f"it cannot be read: {error}"
    if copied.audit not in known:
        return (
            f"it names action {copied.audit[:10]}, which is not in the store: an older copy of the "
            "store was put back, or another site has changed the node"
        )
    if expected and known.index(copied.audit) < known.index(expected):
        return (
            f"it ends at action {copied.audit[:10]}, and {expected[:10]} was copied to it later: "
            "an older one was put back, or it was read before that (run b200 check)"
        )
    return _changed(lines, copied)


def _expected(lines: Sequence[LedgerLine], run: str) -> str:
    """The newest action that the node must know, where no new image took its copy away."""
    expected = ""
    for line in lines:
        if line.run == run:
            continue
        if isinstance(line, IntentLine) and line.level is Level.REIMAGE:
            expected = ""
        if isinstance(line, DoneLine):
            expected = line.copied or expected
    return expected


def _changed(lines: Sequence[LedgerLine], copied: CopiedTransaction) -> str:
    """Which of its fields are not what the lines add up to, as far as it knows them."""
    tx = Transaction("")
    for line in lines:
        tx = applied(tx, line)
        if copied.audit == line.digest:
            break
    there = vars(CopiedTransaction.of(tx))
    wrong = [key for key, value in there.items() if vars(copied)[key] != value]
    return f"it was changed: {', '.join(wrong)}" if wrong else ""
