"""Files of JSON lines that only grow. A line is on the disk when `append` returns.

A writer that is killed leaves the whole line, or a torn one that the next reader names and the next
writer begins a new line after.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.durable_files import space_named, sync_directory
from b200kit.run.places import safe_name

_BLOCK = 4096
_POLL_S = 0.01


def path_of(folder: Path, node: str) -> Path:
    """The file of a node in a directory of such files."""
    return folder / f"{safe_name(node)}.jsonl"


def read(path: Path) -> bytes:
    """The content of a file, empty where there is none. Raises OSError when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file, the last one first, reading no more of it than is asked for.

    The first is what follows the last end of a line: empty, unless a writer was killed. Raises
    OSError when the file cannot be read; where there is none it is empty.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at, rest = file.seek(0, os.SEEK_END), b""
        while at:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            rest, *whole = (file.read(size) + rest).split(b"\n")
            yield from reversed(whole)
        yield rest


def digest(body: Mapping[str, Any]) -> str:
    """What a later line names an earlier one by, so that a change to either shows."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Busy(OSError):
    """A lock that somebody else holds."""


@contextmanager
def locked(path: Path, within_s: float, mode: int = 0o640) -> Iterator[int]:
    """Hold the lock of a file, its descriptor given; raises Busy when it is not free in time.

    The kernel frees it however this process ends, whatever the clock says. It is asked for again
    and again, as waiting in `flock` would stop all nodes of this process.
    """
    handle, end = os.open(path, os.O_RDWR | os.O_CREAT, mode), time.monotonic() + within_s
    try:
        while not _taken(handle):
            if time.monotonic() >= end:
                raise Busy(f"{path} is locked by another process")
            time.sleep(_POLL_S)
        yield handle
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def append(path: Path, make: Callable[[Path], str | None], mode: int = 0o644) -> bool:
    """Add the line, newline included, that *make* derives from the file so far; False for none.

    It is written by one `write` under a lock, which ends with the descriptor, however this process
    ends. Raises OSError where it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        line = make(path)
        if line is None:
            return False
        with space_named(path, len(line.encode())):
            _write(handle, path, line)
    finally:
        os.close(handle)
    if is_new:
        sync_directory(path.parent)
    return True


def _write(handle: int, path: Path, line: str) -> None:
    length = os.fstat(handle).st_size
    is_torn = length > 0 and os.pread(handle, 1, length - 1) != b"\n"
    data = b"\n" * is_torn + line.encode()
    written = os.write(handle, data)
    if written != len(data):
        os.ftruncate(handle, length)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(handle)


def lines(content: bytes) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Every line with its number from 1 on; None for one that is no JSON object, cut by a kill."""
    for number, raw in enumerate(content.split(b"\n"), 1):
        if raw.strip():
            yield number, parsed(raw)


def parsed(raw: bytes) -> dict[str, Any] | None:
    """The object of a line; None for one that is no JSON object, cut by a kill."""
    try:
        return documents.decode(documents.Object, raw, documents.LARGE)
    except documents.Malformed:
        return None
