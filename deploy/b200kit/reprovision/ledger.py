"""Where transactions are kept: a file a node and the log of all actions, in one directory.

A line is on the disk before `append` returns (b200kit/run/jsonl.py). Each event goes into the log
first and then, with its digest there, into the node's file: a controller that dies between the two
leaves one action that the log has and the transaction does not have, which the next owner takes up.
Who writes about a node holds the lock of its file all the time; the kernel frees it when that
process ends, whatever any clock says.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.node.lib.durable_files import sync_directory
from b200kit.reprovision import audit, logged, transaction
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
_FLEET_S = 60.0
# Somebody who only asks whether it is held has it for a moment.
_LOCK_S = 0.2


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


def known(folder: Path) -> list[str]:
    """Nodes that have a file, and those out of service whose file is gone, sorted."""
    with _told(folder):
        last = logged.newest(folder / AUDIT)
    return sorted({*nodes(folder), *(n for n, act in last.items() if logged.leaves_out(act))})


def read(folder: Path, node: str) -> Transaction:
    """A node's transaction, one that is not open where there is no file; raises Damaged."""
    path = jsonl.path_of(folder, node)
    return _folded(path, node, whole(path, lambda path: chain.parse(jsonl.read(path))))


def whole(path: Path, look: Callable[[Path], Chain]) -> Chain:
    """What a look at a node's file finds; raises Damaged where that is not all there was.

    Where it finds no entry the log must know of none: a node that is out stays out without a file.
    """
    log = path.with_name(AUDIT)
    try:
        found, last = look(path), logged.NONE
        if not found.entries:
            last = logged.newest(log).get(path.stem, logged.NONE)
            found = look(path)  # has by now what the log had
    except OSError as error:
        why = error.strerror or str(error)
        is_log = error.filename == str(log)
        raise Damaged(f"{log}: {why}" if is_log else unknown(path, why)) from None
    if why := next(iter(found.damage), "") or logged.lost(path, found, last):
        raise Damaged(unknown(path, why))
    return found


def lines(folder: Path, node: str) -> Chain:
    """The lines of a node's file, as far as they can be read."""
    try:
        return chain.parse(jsonl.read(jsonl.path_of(folder, node)))
    except OSError:
        return Chain()


def digests(folder: Path, node: str) -> list[str]:
    """The actions of the log that a node's file has, or that its owner is about to write there."""
    found = [
        digest for entry in lines(folder, node).entries for digest in transaction.logged(entry)
    ]
    return [*found, *logged.left(folder / AUDIT, node, found)] if is_held(folder, node) else found


def is_held(folder: Path, node: str) -> bool:
    """Whether the owner of a node's transaction is at work, on whatever machine."""
    try:
        with _lock_of(folder, node).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other controller takes a node out meanwhile; for moments only."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with jsonl.locked(folder / ".fleet.lock", _FLEET_S, _MODE):
            yield


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """No controller adds to the log meanwhile, so that all can be compared; for moments only."""
    with ExitStack() as held:
        with suppress(OSError):
            handle = held.enter_context((folder / AUDIT).open("rb"))
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield


def _lock_of(folder: Path, node: str) -> Path:
    return folder / f".{jsonl.path_of(folder, node).name}.lock"


def _folded(path: Path, node: str, lines: Chain) -> Transaction:
    try:
        return transaction.fold(node, lines.entries)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = f"its lines make no transaction ({type(error).__name__}: {error})"
        raise Damaged(unknown(path, why)) from None


def unknown(path: Path, why: str) -> str:
    """The line of a file that cannot be read."""
    return (
        f"{path}: {why}: how far this node's transaction is cannot be told. Put the file back as "
        "it was, or start again with --data reason=..., which sets it aside (docs/reprovision.md)"
    )


class Ledger:
    """One node's transaction, as one operator of one run writes it."""

    def __init__(self, folder: Path, node: str, who: str, run: str) -> None:
        self.folder, self.node, self.who, self.run = folder, node, who, run
        self.path = jsonl.path_of(folder, node)
        self._tx = Transaction(node)
        self._held = ExitStack()
        self._lock: int | None = None
        # Actions that the log has and the node's file does not have yet.
        self._behind: list[str] = []

    def read(self) -> Transaction:
        """The transaction as it is on the disk."""
        return read(self.folder, self.node)

    def claim(self, reopen: Callable[[], object] | None = None) -> Transaction:
        """Become the node's one owner until `release`, or raise Held naming who is.

        Where the file is damaged *reopen* opens another transaction in its place, if it is given.
        """
        with _told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock = jsonl.locked(_lock_of(self.folder, self.node), _LOCK_S, _MODE)
                self._lock = self._held.enter_context(lock)
            except jsonl.Busy:
                raise Held(_holder(self.read())) from None
        try:
            try:
                self._tx = self.read()
            except Damaged:
                if reopen is None:
                    raise
                self._set_aside()
                reopen()  # before the claim: at no moment does the node count as serving
            if os.pread(self._lock, 1, 0):
                # Its last owner died.
                self._behind = logged.left(self.folder / AUDIT, self.node, self._tx.digests)
            with _told(self.folder):
                os.pwrite(self._lock, b"held\n", 0)
                os.fsync(self._lock)  # before the log has a line of ours
                sync_directory(self.folder)
            previous = (self._tx.owner or {}).get("owner")
            return self.append(
                "claim", owner=self.who, since=timestamp.now(), previous_owner=previous
            )
        except BaseException:
            self._free()
            raise

    def begin(
        self, findings: list[dict[str, Any]], cause: str, why: str, **more: Any
    ) -> Transaction:
        """Open a transaction."""
        identity = f"{timestamp.now()}-{secrets.token_hex(3)}"
        return self.append("open", tx=identity, findings=findings, cause=cause, why=why, **more)

    def release(self) -> Transaction:
        """Give the node up to whoever claims it next."""
        try:
            tx = self.append("release")
            if self._lock is not None:
                os.ftruncate(self._lock, 0)
            return tx
        finally:
            self._free()

    def append(self, kind: str, **fields: Any) -> Transaction:
        """Write one event; returns the transaction with it. Only the owner writes."""
        if self._lock is None:
            raise StageFailed(f"{self.path}: only who has claimed the node writes to it")
        known = self._tx
        raw = {
            "kind": kind,
            "at": timestamp.now(),
            "node": self.node,
            "tx": known.id,
            "who": self.who,
            "run": self.run,
            **fields,
        }
        entry = json.loads(json.dumps(raw))
        after = transaction.applied(known, entry)
        change = {"change": after.change.summary()} if after.change else {}
        entry["after"] = {"tx": after.id, "cause": after.cause, **change}
        if self._behind:
            entry["recovered"] = list(self._behind)
        logged = {"schema": audit.SCHEMA, **audited(known, entry)}
        entry["audit"] = _append_to_chain(self.folder / AUDIT, logged)
        self._behind.append(entry["audit"])
        _append_to_chain(self.path, entry)
        self._behind.clear()
        self._tx = transaction.applied(known, entry)
        return self._tx

    def _set_aside(self) -> None:
        """Keep what is left of the file under another name."""
        with _told(self.path), suppress(FileNotFoundError):
            self.path.rename(self.path.with_suffix(f".damaged-{timestamp.now()}"))

    def _free(self) -> None:
        self._held.close()
        self._lock = None


def _holder(tx: Transaction) -> str:
    owner = tx.owner or {}
    return (
        f"{owner.get('owner') or 'another run'} has been reprovisioning this node since "
        f"{owner.get('since') or 'a moment ago'}, and its process still runs: wait until it ends"
    )


def _append_to_chain(path: Path, entry: dict[str, Any]) -> str:
    """Append an entry that follows the last one; returns its digest."""
    digest = ""

    def line(path: Path) -> str:
        nonlocal digest
        text, digest = chain.line(entry, chain.newest(jsonl.backwards(path)).last)
        return text

    append(path, line)
    return digest


def append(path: Path, make: Callable[[Path], str]) -> None:
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
