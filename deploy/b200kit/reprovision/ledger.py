"""The transactions of nodes in the site's store, and who owns one.

An event is a line, on the disk before `append` returns. The claim, the look at the fleet and the
line that takes a node out are one transaction of the store, so no other controller comes between.
Who writes about a node has claimed it until his process ends (b200kit/store/claims.py).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import LARGE, Malformed, unstructure
from b200kit.node.state.verdict import Finding
from b200kit.reprovision import transaction
from b200kit.reprovision.ledger_line import (
    AuditedAction,
    ClaimLine,
    ClosingLine,
    IntentLine,
    LedgerLine,
    LedgerState,
    OpenLine,
    ReleaseLine,
    line_of,
)
from b200kit.reprovision.planned_change import PlannedChange
from b200kit.reprovision.transaction import Transaction
from b200kit.run.node import StageFailed
from b200kit.store import claims
from b200kit.store.database import SITE, Line, Store

LOG = "transaction"


class NodeHeld(StageFailed):
    """A node that another person is reprovisioning: who, and since when."""


@dataclass
class Transactions:
    """Every node's transaction. What is damaged raises Damaged: nobody knows that it serves."""

    store: Store = SITE
    # What was read of each node, by the digest of the line up to which it was.
    _read: dict[str, Transaction] = field(default_factory=dict)
    _standings: dict[str, tuple[str, LedgerState]] = field(default_factory=dict)

    def nodes(self) -> list[str]:
        """Nodes that ever had one, sorted."""
        return self.store.subjects(LOG)

    def lines(self, node: str) -> list[LedgerLine]:
        """The lines about a node, oldest first."""
        return [self._parsed(line) for line in self.store.read(LOG, node)]

    def count(self, node: str) -> int:
        """How many lines there are about a node."""
        return self.store.count(LOG, node)

    def read(self, node: str) -> Transaction:
        """A node's transaction, one that is not open where there is none."""
        with self.store.reading():
            known = self._read.get(node, Transaction(node))
            if known.digest == self.store.digest(LOG, node):
                return known
            try:
                found = transaction.fold(node, lines := self.lines(node))
                if found.standing != lines[-1].after:
                    raise LookupError("the last says otherwise")
            except LookupError as error:
                why = f"the lines about {node} make no transaction ({error})"
                raise self.store.name_damage(why) from None
            self._read[node] = found
            return found

    def standing(self, node: str) -> LedgerState:
        """Where a node stands by its newest line, which is all that a look at a fleet reads."""
        with self.store.reading():
            digest = self.store.digest(LOG, node)
            known, standing = self._standings.get(node, ("", LedgerState()))
            if known != digest and (line := self.store.newest(LOG, node)):
                standing = self._parsed(line).after
                self._standings[node] = digest, standing
            return standing

    def is_held(self, node: str) -> bool:
        """Whether the owner of a node's transaction is at work."""
        owner = self.read(node).owner
        return owner is not None and claims.is_taken(self.store.beside("claims"), owner.number)

    def actions(self) -> Iterator[AuditedAction]:
        """Everything that was done, oldest first, as people read it."""
        known: dict[str, Transaction] = {}
        for line in map(self._parsed, self.store.all_of(LOG)):
            before = known.get(line.node, Transaction(line.node))
            known[line.node] = after = transaction.applied(before, line)
            yield _action(before, line, after)

    def add(self, line: LedgerLine) -> Transaction:
        """Add a line, which its owner alone does; returns the transaction with it."""
        with self.store.writing():
            known = self.read(line.node)
            line = replace(line, after=transaction.applied(known, line).standing)
            # What cannot be read again is not written.
            document = unstructure(line_of(unstructure(line)))
            added = self.store.append(LOG, line.node, json.dumps(document, sort_keys=True))
            line = replace(line, number=added.number, digest=added.digest)
            self._read[line.node] = found = transaction.applied(known, line)
            return found

    def _parsed(self, line: Line) -> LedgerLine:
        try:
            found = line_of(documents.parse(line.text, LARGE))
        except Malformed as error:
            raise self.store.name_damage(f"line {line.number}: {error}") from None
        return replace(found, number=line.number, digest=line.digest)


class Ledger:
    """One node's transaction, as one operator of one run writes it."""

    def __init__(self, transactions: Transactions, node: str, who: str, run: str) -> None:
        self.transactions, self.node, self.who, self.run = transactions, node, who, run
        self._claim: int | None = None

    def read(self) -> Transaction:
        """The transaction as it is on the disk."""
        return self.transactions.read(self.node)

    def claim(self) -> Transaction:
        """Become the node's one owner until `release`, or raise Held naming who is."""
        store = self.transactions.store
        try:
            with store.writing():
                owner = self.read().owner
                if owner and self.transactions.is_held(self.node):
                    raise NodeHeld(
                        f"{owner.who} has been reprovisioning this node since {owner.at}, and its "
                        "process still runs: wait until it ends"
                    )
                self._claim = claims.take(store.beside("claims"), store.last.number + 1)
                return self.append(ClaimLine(previous_owner=owner.who if owner else ""))
        except BaseException:
            self._free()
            raise

    def begin(
        self,
        findings: Sequence[Finding],
        cause: str,
        why: str,
        change: PlannedChange | None = None,
    ) -> Transaction:
        """Open a transaction."""
        tx = f"{timestamp.now()}-{secrets.token_hex(3)}"
        return self.append(
            OpenLine(tx=tx, findings=tuple(findings), cause=cause, why=why, change=change)
        )

    def release(self) -> Transaction:
        """Give the node up to whoever claims it next."""
        try:
            return self.append(ReleaseLine())
        finally:
            self._free()

    def append(self, line: LedgerLine) -> Transaction:
        """Write what happened; returns the transaction with it. Only the owner writes."""
        if self._claim is None:
            raise StageFailed(f"{self.node}: only who has claimed the node writes about it")
        with self.transactions.store.writing():
            line = replace(
                line,
                at=timestamp.now(),
                node=self.node,
                tx=line.tx or self.read().id,
                who=self.who,
                run=self.run,
            )
            return self.transactions.add(line)

    def _free(self) -> None:
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


def _action(before: Transaction, line: LedgerLine, after: Transaction) -> AuditedAction:
    ends = isinstance(line, ClosingLine)
    intent = before.pending if ends else line if isinstance(line, IntentLine) else None
    return AuditedAction(
        at=line.at,
        node=line.node,
        tx=line.tx,
        who=line.who,
        run=line.run,
        kind=line.kind,
        before=before.state,
        after=after.state,
        what=line.what,
        step=intent.title if intent else "",
        evidence=after.evidence.sha256 if after.evidence else "",
        digest=line.digest,
    )
