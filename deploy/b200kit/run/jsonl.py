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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from b200kit.node.lib.durable_files import space_named, sync_directory
from b200kit.run.file_names import safe_name


def path_of(folder: Path, node: str) -> Path:
    """The file of a node in a directory of such files."""
    return folder / f"{safe_name(node)}.jsonl"


def read(path: Path) -> bytes:
    """The content of a file, empty where there is none. Raises OSError when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def digest(body: Mapping[str, Any]) -> str:
    """What a later line names an earlier one by, so that a change to either shows."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def append(path: Path, make: Callable[[bytes], str | None], mode: int = 0o644) -> bool:
    """Add the line, newline included, that *make* derives from the content so far; False for none.

    It is written by one `write` under a lock, which ends with the descriptor, however this process
    ends. Raises OSError where it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        content = path.read_bytes()
        line = make(content)
        if line is None:
            return False
        with space_named(path, len(line.encode())):
            _write(handle, path, content, line)
    finally:
        os.close(handle)
    if is_new:
        sync_directory(path.parent)
    return True


def _write(handle: int, path: Path, content: bytes, line: str) -> None:
    is_torn = bool(content) and not content.endswith(b"\n")
    data = b"\n" * is_torn + line.encode()
    written = os.write(handle, data)
    if written != len(data):
        os.ftruncate(handle, len(content))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(handle)


def lines(content: bytes) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Every line with its number from 1 on; None for one that is no JSON object, cut by a kill."""
    for number, raw in enumerate(content.split(b"\n"), 1):
        if raw.strip():
            yield number, _object(raw)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
