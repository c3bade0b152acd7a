"""The file itself: lines that only grow, in transactions, each with the digest of the one before.

    entry  the chain: of which log, about which subject, what its text's digest is
    body   the text of each, JSON

Whoever opens it follows the whole chain once, then what is new: a line that was changed, taken away
or put elsewhere breaks it, and so does a page that rotted. Texts are held against the chain when
they are read. There is no index that could tell otherwise than the lines.

The chain alone cannot know that its end was taken away, or the file: beside it lies `FILE.newest`,
which names the newest line. Damage is raised, never passed over: what cannot be read frees no node.

The journal is SQLite's oldest, a file that is gone after each commit: the store is one file to copy
between two runs. A commit is on the disk, its directory included, when `writing` ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.documents import NEEDED, Range
from b200kit.run.node import StageFailed
from b200kit.run.places import home
from b200kit.store.local_disk import mount_of

VARIABLE = "B200_STORE"
"""Names another file, such as one on a local disk where the site lies on none."""
NAME = "b200.db"

SYNCHRONOUS = "EXTRA"
"""What is on the disk after a commit: the end of its journal, too (SQLite, PRAGMA synchronous)."""
_VERSION = 1
_APPLICATION = 0xB200
_WAIT_S = 60.0
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
CREATE TABLE entry (
  number INTEGER PRIMARY KEY, log TEXT NOT NULL, subject TEXT NOT NULL,
  sha256 TEXT NOT NULL, digest TEXT NOT NULL
) STRICT;
CREATE TABLE body (number INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
"""
# What is no damage: a full disk, a file that is not ours to write, a writer that does not end.
_REFUSED = ("FULL", "BUSY", "LOCKED", "READONLY", "CANTOPEN", "PERM", "IOERR")


class StoreError(StageFailed, OSError):
    """A store that cannot be used, in one line that names its file."""


class Damaged(StoreError):
    """A store that does not say how things stand."""


@dataclass(frozen=True)
class Line:
    """A line as it is read: its number, its text, the digest that names it."""

    number: int
    subject: str
    text: str
    digest: str


@dataclass(frozen=True)
class Newest:
    """The newest line of all, as the file beside the store has it."""

    number: Annotated[int, Range(0)] = field(default=0, metadata=NEEDED)
    digest: str = field(default="", metadata=NEEDED)


class Store:
    """A store as this process knows it; without a path, that of the site."""

    def __init__(self, path: Path | None = None) -> None:
        self._named_path, self._path = path, path
        self._connection: sqlite3.Connection | None = None
        self._writes = self._is_local = False
        self._mutex = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        """Know nothing of the chain: it is followed from its beginning."""
        self._last = Newest()
        self._numbers: dict[tuple[str, str], list[int]] = {}
        self._digests: dict[tuple[str, str], str] = {}

    @property
    def path(self) -> Path:
        """The file; raises NoSite."""
        path = self._named_path or Path(os.environ.get(VARIABLE) or home() / NAME)
        if path != self._path:
            self._path, self._is_local = path, False
            self._forget()
        return path

    def _refuse_shared(self) -> None:
        """Refuse what lies where another controller could write to it, too; asked once."""
        folder = self.path.parent
        there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
        if self._is_local or not (mount := mount_of(there)).is_shared:
            self._is_local = True
            return
        raise StoreError(
            f"{self.path} is on {mount.kind}, where two controllers could write at once: keep it "
            f"on a local disk of one controller, and name it in {VARIABLE}"
        )

    def beside(self, ending: str) -> Path:
        """A file beside it."""
        return self.path.with_name(f"{self.path.name}.{ending}")

    def subjects(self, log: str) -> list[str]:
        """What a log has lines about, sorted."""
        with self.reading():
            return sorted(subject for of, subject in self._numbers if of == log)

    def read(self, log: str, subject: str) -> list[Line]:
        """The lines about a subject, oldest first."""
        with self.reading() as connection:
            numbers = self._numbers.get((log, subject), [])
            return [self._line(connection, number) for number in numbers]

    def count(self, log: str, subject: str) -> int:
        """How many lines there are about a subject."""
        with self.reading():
            return len(self._numbers.get((log, subject), ()))

    def newest(self, log: str, subject: str) -> Line | None:
        """The newest line about a subject."""
        with self.reading() as connection:
            numbers = self._numbers.get((log, subject))
            return self._line(connection, numbers[-1]) if numbers else None

    def digest(self, log: str, subject: str) -> str:
        """That of the newest line about a subject; empty where there is none."""
        with self.reading():
            return self._digests.get((log, subject), "")

    def all_of(self, log: str) -> list[Line]:
        """Every line of a log, oldest first."""
        with self.reading() as connection:
            numbers = sorted(
                n for (of, _), found in self._numbers.items() if of == log for n in found
            )
            return [self._line(connection, number) for number in numbers]

    def append(self, log: str, subject: str, text: str) -> Line:
        """Add a line; it is on the disk when the outermost `writing` ends."""
        with self.writing() as connection:
            number, sha256 = self._last.number + 1, _sha256(text)
            digest = _digest(self._last.digest, number, log, subject, sha256)
            values = number, log, subject, sha256, digest
            connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", values)
            connection.execute("INSERT INTO body VALUES (?, ?)", (number, text))
            self._follow(number, log, subject, digest)
            return Line(number, subject, text, digest)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """See one state of the store meanwhile. Raises StoreError."""
        with self._mutex:
            if self._connection:
                yield self._connection
                return
            with self._opened("BEGIN") as connection:
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Be the one writer meanwhile, of all processes: all that is added, or none of it.

        For moments only: everybody else waits. Raises StoreError.
        """
        with self._mutex:
            if self._connection:
                if not self._writes:
                    raise RuntimeError("a reader of the store began to write")
                yield self._connection
                return
            self._writes = True
            try:
                with self._opened("BEGIN IMMEDIATE") as connection:
                    before = self._last
                    try:
                        yield connection
                        connection.execute("COMMIT")
                    except BaseException:
                        if self._last != before:
                            self._forget()
                        raise
            finally:
                self._writes = False
            # The lines are safe: without it only a loss of the newest would not be noticed.
            with suppress(OSError):
                durable_files.replace(self.beside("newest"), documents.to_bytes(self._last), 0o640)

    @contextmanager
    def _opened(self, begin: str) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that has followed the chain; rolled back afterwards."""
        with self._named():
            self._refuse_shared()
            newest = self._kept_newest()  # before the lines: who adds one does so after it
            self._connection = self._connect(newest)
            try:
                self._connection.execute(begin)
                self._follow_chain(self._connection, newest)
                yield self._connection
            finally:
                self._connection.close()
                self._connection = None

    def faults(self) -> list[str]:
        """All that is wrong with it, every page and every text looked at."""
        try:
            with self.reading() as connection:
                found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
                wrong = [f"{self.path}: {line}" for line in found if line != "ok"]
                for number in range(1, self._last.number + 1):
                    try:
                        self._line(connection, number)
                    except Damaged as error:
                        wrong.append(str(error))
                return wrong
        except StoreError as error:
            return [str(error)]

    @property
    def last(self) -> Newest:
        """The newest line of all."""
        with self.reading():
            return self._last

    def _connect(self, newest: Newest) -> sqlite3.Connection:
        """To the file, or for a reader to an empty one in memory where there is none yet."""
        is_there = self.path.exists()
        if not is_there or not self.path.stat().st_size:
            self._refuse_lost(newest)
        if not is_there and not self._writes:
            return sqlite3.connect(":memory:", isolation_level=None)
        if not is_there:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o640))
        name = f"file:{quote(str(self.path))}?mode=rw"
        connection = sqlite3.connect(name, _WAIT_S, isolation_level=None, uri=True)
        connection.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        connection.execute("PRAGMA cell_size_check=ON")
        return connection

    def _follow_chain(self, connection: sqlite3.Connection, newest: Newest) -> None:
        """From where it was left to its end; a file without anything gets its tables."""
        if self._is_empty(connection):
            if newest.number:
                raise self.name_damage(f"it is empty, and line {newest.number} was written to it")
            for statement in _SCHEMA.split(";")[:-1] if self._writes else ():
                connection.execute(statement)
            return
        if self._last.number and not self._has(connection, self._last):
            raise self.name_damage(f"line {self._last.number}, which this run knows, is another")
        rows = connection.execute(
            "SELECT number, log, subject, sha256, digest FROM entry WHERE number > ? "
            "ORDER BY number",
            (self._last.number,),
        )
        for number, log, subject, sha256, digest in rows:
            expected = _digest(self._last.digest, self._last.number + 1, log, subject, sha256)
            if (number, digest) != (self._last.number + 1, expected):
                self._forget()
                raise self.name_damage(
                    f"line {number} does not follow the one before it: lines were changed, taken "
                    "away or moved"
                )
            self._follow(number, log, subject, digest)
        if newest.number and not self._has(connection, newest):
            raise self.name_damage(
                f"line {newest.number} was written to it, and is gone: an older file was put back, "
                "or its end was taken away"
            )

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """Whether it has nothing yet. Raises StoreError for another format."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if (version, application, objects) == (0, 0, 0):
            return True
        if application != _APPLICATION:
            raise self.name_damage("it is no store of b200kit")
        if version != _VERSION:
            raise StoreError(
                f"{self.path}: of schema {version}, and this b200kit reads {_VERSION}: use the "
                "release that wrote it"
            )
        return False

    def _has(self, connection: sqlite3.Connection, line: Newest) -> bool:
        rows = connection.execute("SELECT digest FROM entry WHERE number = ?", (line.number,))
        return bool(rows.fetchone() == (line.digest,))

    def _follow(self, number: int, log: str, subject: str, digest: str) -> None:
        self._last = Newest(number, digest)
        self._numbers.setdefault((log, subject), []).append(number)
        self._digests[log, subject] = digest

    def _line(self, connection: sqlite3.Connection, number: int) -> Line:
        row = connection.execute(
            "SELECT subject, text, sha256, digest FROM entry JOIN body USING (number) "
            "WHERE number = ?",
            (number,),
        ).fetchone()
        if row is None or not isinstance(row[1], str) or _sha256(row[1]) != row[2]:
            about = f", about {row[0]}," if row else ""
            raise self.name_damage(f"line {number}{about} was changed after it was written")
        subject, text, _, digest = row
        return Line(number, subject, text, digest)

    def _kept_newest(self) -> Newest:
        path = self.beside("newest")
        try:
            return documents.load(Newest, path)
        except FileNotFoundError:
            return Newest()
        except documents.Malformed as error:
            raise self.name_damage(
                f"{path} does not say which line is its newest ({error})"
            ) from None

    def _refuse_lost(self, newest: Newest) -> None:
        """Raise where an empty answer would be none: there was a store."""
        if newest.number:
            raise self.name_damage(f"it is gone, and line {newest.number} was written to it")

    def name_damage(self, why: str) -> Damaged:
        """The error of a store of which this is wrong."""
        return Damaged(
            f"{self.path}: {why}: what it says cannot be relied on, so no node is taken out or "
            f"returned. Put back its newest copy and remove {self.beside('newest').name} "
            "(docs/reprovision.md)"
        )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what SQLite and the file system refuse into one line that names the file."""
        try:
            yield
        except StoreError:
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            name = getattr(error, "sqlite_errorname", "")
            if any(word in name for word in _REFUSED):
                raise StoreError(f"{self.path}: {error}") from None
            raise self.name_damage(str(error)) from None
        except OSError as error:
            if isinstance(error, StageFailed) or error.filename is None:
                raise
            raise StoreError(f"{error.filename}: {error.strerror or error}") from None


SITE = Store()
"""The store of the site that this process works for."""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(previous: str, *values: object) -> str:
    """What names a line: all before it is in it."""
    return _sha256(json.dumps([previous, *values], default=repr))
