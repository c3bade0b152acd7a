"""Where transactions are kept: a file a node and the log of all actions, in one directory.

A line is on the disk before `append` returns (b200kit/run/jsonl.py). Each event goes into the log
first and then, with its digest there, into the node's file: a controller that dies between the two
leaves an action that the log has and the transaction does not have, never the other way round.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.reprovision import audit, transaction
from b200kit.reprovision.ledger_line import audited
from b200kit.reprovision.transaction import Transaction
from b200kit.run import chain, jsonl
from b200kit.run.chain import Chain
from b200kit.run.node import StageFailed
from b200kit.run.places import home

VARIABLE = "B200_TRANSACTIONS"
"""Names another directory, such as one that the whole team shares."""

AUDIT = "audit.jsonl"
_MODE = 0o640


class Held(StageFailed):
    """A node that another person is reprovisioning: who, and since when."""


class Damaged(StageFailed):
    """A node whose file does not say where its transaction stands; one line, the file named."""


def directory() -> Path:
    """The directory of all transactions."""
    return Path(os.environ.get(VARIABLE) or home() / "transactions")


def nodes(folder: Path) -> list[str]:
    """Nodes that have a file, sorted."""
    with _told(folder):
        names = os.listdir(folder) if folder.exists() else []
    return sorted(n.removesuffix(".jsonl") for n in names if n.endswith(".jsonl") and n != AUDIT)


def read(folder: Path, node: str) -> Transaction:
    """A node's transaction, one that is not open where there is no file; raises Damaged."""
    path = jsonl.path_of(folder, node)
    try:
        return _folded(path, node, chain.parse(jsonl.read(path)))
    except OSError as error:
        raise Damaged(_unknown(path, error.strerror or str(error))) from None


def digests(folder: Path, node: str) -> list[str]:
    """What a node's file says of the log of all actions, as far as it can be read."""
    try:
        entries = chain.parse(jsonl.read(jsonl.path_of(folder, node))).entries
    except OSError:
        return []
    return [entry["audit"] for entry in entries if isinstance(entry.get("audit"), str)]


def _folded(path: Path, node: str, lines: Chain) -> Transaction:
    if lines.damage:
        raise Damaged(_unknown(path, lines.damage[0]))
    try:
        return transaction.fold(node, lines.entries)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its lines make no transaction ({type(error).__name__}: {error})"
        raise Damaged(_unknown(path, why)) from None


def _unknown(path: Path, why: str) -> str:
    return (
        f"{path}: {why}: how far this node's transaction is cannot be told. Put the file back as "
        "it was, or move it away and start again with --data reason=... (docs/reprovision.md)"
    )


class Ledger:
    """One node's transaction, as one operator of one run writes it."""

    def __init__(self, folder: Path, node: str, who: str, run: str, ttl_s: int) -> None:
        self.folder, self.node, self.who, self.run, self.ttl_s = folder, node, who, run, ttl_s
        self.path = jsonl.path_of(folder, node)

    def read(self) -> Transaction:
        """The transaction as it is on the disk."""
        return read(self.folder, self.node)

    def claim(self, is_dead: Callable[[str], bool] = lambda owner: False) -> Transaction:
        """Become the node's one owner, or raise Held naming who is. A dead one is succeeded."""
        now = timestamp.now()
        with self._locked() as tx:
            if transaction.held_by_another(tx, self.who, transaction.seconds(now)):
                owner = tx.owner or {}
                if not is_dead(str(owner.get("owner"))):
                    raise Held(
                        f"{owner.get('owner')} has been reprovisioning this node since "
                        f"{owner.get('since')}; wait for it, or for {owner.get('until')}"
                    )
            previous = (tx.owner or {}).get("owner")
            self._write(tx, "claim", owner=self.who, since=now, after=previous)
        return self.read()

    def begin(self, findings: list[dict[str, Any]], cause: str, why: str) -> Transaction:
        """Open a transaction."""
        identity = f"{timestamp.now()}-{secrets.token_hex(3)}"
        return self.append("open", tx=identity, findings=findings, cause=cause, why=why)

    def append(self, kind: str, **fields: Any) -> Transaction:
        """Write one event; returns the transaction with it."""
        with self._locked() as tx:
            self._write(tx, kind, **fields)
        return self.read()

    def _write(self, known: Transaction, kind: str, **fields: Any) -> None:
        entry = {
            "kind": kind,
            "at": timestamp.now(),
            "node": self.node,
            "tx": known.id,
            "who": self.who,
            "run": self.run,
            "until": timestamp.now(self.ttl_s),
            **fields,
        }
        entry["audit"] = self._log(audited(known, entry))
        _append_to_chain(self.path, entry)

    def _log(self, entry: dict[str, Any]) -> str:
        """Put an event into the log of all actions; returns its digest there."""
        return _append_to_chain(self.folder / AUDIT, {"schema": audit.SCHEMA, **entry})

    @contextmanager
    def _locked(self) -> Iterator[Transaction]:
        """The transaction as its file has it, while nobody else writes to that."""
        with _told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            guard = os.open(self.folder / f".{self.path.name}.lock", os.O_RDWR | os.O_CREAT, _MODE)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(guard)


def _append_to_chain(path: Path, entry: dict[str, Any]) -> str:
    """Append an entry that follows the last one; returns its digest."""
    digest = ""

    def line(content: bytes) -> str:
        nonlocal digest
        text, digest = chain.line(entry, chain.parse(content).last)
        return text

    append(path, line)
    return digest


def append(path: Path, make: Callable[[bytes], str]) -> None:
    """Append what *make* says follows the file's content, whole or not at all, and on the disk."""
    with _told(path):
        jsonl.append(path, make, _MODE)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one line that names the file."""
    try:
        yield
    except OSError as error:
        raise StageFailed(f"{path}: {error.strerror or error}") from None
