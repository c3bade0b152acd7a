"""Where transactions are kept: a file a node and the log of all actions, in one directory.

A line is on the disk before `append` returns (b200kit/run/jsonl.py). Each event goes into the log
first and then, with its digest there, into the node's file: a controller that dies between the two
leaves one action that the log has and the transaction does not have, which the next owner takes up.
Who writes about a node holds the lock of its file all the time; the kernel frees it when that
process ends, whatever any clock says. A directory that several machines share must pass `flock` on
between them and show a new file at once: NFS 4 without nolock and local_lock, with
lookupcache=positive. Untested here; local disks are.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.lib.durable_files import sync_directory
from b200kit.node.state.verdict import Finding
from b200kit.reprovision import logged, transaction
from b200kit.reprovision.ledger_line import (
    AuditLine,
    ClaimLine,
    ClosingLine,
    IntentLine,
    LedgerLine,
    OpenLine,
    ReleaseLine,
    Standing,
    line_of,
)
from b200kit.reprovision.planned_change import ChangeSummary, PlannedChange
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
        actions = logged.read(folder / AUDIT)
    return sorted({*nodes(folder), *(n for n, of_node in actions.items() if of_node.leaves_out)})


def read(folder: Path, node: str) -> Transaction:
    """A node's transaction, one that is not open where there is no file; raises Damaged."""
    path = jsonl.path_of(folder, node)
    found = _whole(path, _parse).entries
    try:
        tx = transaction.fold(node, found)
        if found and tx.standing != found[-1].after:
            raise ValueError("its last line says otherwise")
    except (LookupError, ValueError) as error:
        raise Damaged(_unknown(path, f"its lines make no transaction ({error})")) from None
    return tx


def out(folder: Path, node: str) -> str | None:
    """By what cause a transaction keeps a node out of service; None where none does."""
    after = _newest(folder, node)
    if after.tx:
        return after.cause
    # Its owner has told the log that he takes it out; one who died then had done nothing to it.
    opens = logged.of_node(folder / AUDIT, node).leaves_out and is_held(folder, node)
    return "" if opens else None


def last_change(folder: Path, node: str) -> ChangeSummary | None:
    """The last change that a node was taken out for."""
    return _newest(folder, node).change


def _newest(folder: Path, node: str) -> Standing:
    """What the last line says, which is all that is read of a file for a look at a whole fleet."""
    path = jsonl.path_of(folder, node)
    found = _whole(path, lambda path: chain.newest(line_of, jsonl.backwards(path))).entries
    return found[-1].after if found else Standing()


def _parse(path: Path) -> Chain[LedgerLine]:
    return chain.parse(line_of, jsonl.read(path))


def _whole(path: Path, look: Callable[[Path], Chain[LedgerLine]]) -> Chain[LedgerLine]:
    """What a look at a node's file finds; raises Damaged where that is not all there was.

    The log tells: a node that is out stays out whatever became of its file.
    """
    log = path.with_name(AUDIT)
    try:
        actions = logged.of_node(log, path.stem)
        found = look(path)
        if actions.lost(path, found):
            found = _parse(path)  # whoever grows it may have written more than one line since
    except OSError as error:
        why = error.strerror or str(error)
        is_log = error.filename == str(log)
        raise Damaged(f"{log}: {why}" if is_log else _unknown(path, why)) from None
    if why := next(iter(found.damage), "") or actions.lost(path, found):
        raise Damaged(_unknown(path, why))
    return found


def lines(folder: Path, node: str) -> Chain[LedgerLine]:
    """The lines of a node's file, as far as they can be read."""
    try:
        return _parse(jsonl.path_of(folder, node))
    except OSError:
        return Chain()


def digests(folder: Path, node: str) -> list[str]:
    """The actions of the log that a node's file has, or that its owner is about to write there."""
    found = [digest for line in lines(folder, node).entries for digest in line.logged]
    held = is_held(folder, node)
    return [*found, *(logged.of_node(folder / AUDIT, node).missing(found) or ())] if held else found


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


def _unknown(path: Path, why: str) -> str:
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
                actions = logged.of_node(self.folder / AUDIT, self.node)
                self._behind = actions.missing(self._tx.digests) or []
            with _told(self.folder):
                os.pwrite(self._lock, b"held\n", 0)
                os.fsync(self._lock)  # before the log has a line of ours
                sync_directory(self.folder)
            previous = self._tx.owner.who if self._tx.owner else ""
            return self.append(ClaimLine(previous_owner=previous))
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
            # What the log alone has, as the file could not be written, the next owner takes up.
            if self._behind:
                return self._tx
            tx = self.append(ReleaseLine())
            if self._lock is not None:
                os.ftruncate(self._lock, 0)
            return tx
        finally:
            self._free()

    def append(self, line: LedgerLine) -> Transaction:
        """Write what happened; returns the transaction with it. Only the owner writes."""
        if self._lock is None:
            raise StageFailed(f"{self.path}: only who has claimed the node writes to it")
        known = self._tx
        line = replace(
            line,
            at=timestamp.now(),
            node=self.node,
            tx=line.tx or known.id,
            who=self.who,
            run=self.run,
            recovered=tuple(self._behind),
        )
        after = transaction.applied(known, line)
        # What cannot be read again is not written.
        line = line_of(unstructure(replace(line, after=after.standing)))
        action = _append_to_chain(self.folder / AUDIT, _action(known, line, after))
        self._behind.append(action)
        line = replace(line, audit=action)
        _append_to_chain(self.path, line)
        self._behind.clear()
        self._tx = transaction.applied(known, line)
        return self._tx

    def _set_aside(self) -> None:
        """Keep what is left of the file under another name."""
        with _told(self.path), suppress(FileNotFoundError):
            self.path.rename(self.path.with_suffix(f".damaged-{timestamp.now()}"))

    def _free(self) -> None:
        self._held.close()
        self._lock = None


def _holder(tx: Transaction) -> str:
    who, since = (tx.owner.who, tx.owner.at) if tx.owner else ("another run", "a moment ago")
    return (
        f"{who} has been reprovisioning this node since {since}, and its process still runs: wait "
        "until it ends"
    )


def _action(before: Transaction, line: LedgerLine, after: Transaction) -> AuditLine:
    """What the log says of a line."""
    ends = isinstance(line, ClosingLine)
    intent = before.pending if ends else line if isinstance(line, IntentLine) else None
    return AuditLine(
        **line.head,
        kind=line.kind,
        before=before.state,
        after=after.state,
        what=line.what,
        step=intent.title if intent else "",
        id=intent.id if intent else "",
        evidence=after.evidence.sha256 if after.evidence else "",
    )


def _append_to_chain(path: Path, entry: LedgerLine | AuditLine) -> str:
    """Append an entry that follows the last one; returns its digest."""
    digest = ""

    def line(path: Path) -> str:
        nonlocal digest
        text, digest = chain.line(entry, chain.newest(dict, jsonl.backwards(path)).last)
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
