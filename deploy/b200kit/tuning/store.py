"""Where the cells of a tuning are stored: one file of JSON lines a node, beside the records.

A line is written by one `write`, under a lock, and is on the disk before `append` returns, so a
tuning that is killed at any moment loses only what it was measuring. A torn last line is passed
over; the next line begins on a new one. Nothing is rewritten.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from b200kit.run.file_names import safe_name
from b200kit.run.places import home

VARIABLE = "B200_TUNING"
"""Names another directory."""
SCHEMA = "b200kit/tuning-line/1"
_KINDS = {"cell": "cell", "layout": "layout"}

Line = dict[str, Any]


def directory(records: str | None = None) -> Path:
    """The directory of all tunings, beside that of the *records* that the inventory names."""
    return Path(os.environ.get(VARIABLE) or (home() / (records or "records")).parent / "tuning")


def path_of(folder: Path, node: str) -> Path:
    """The file of a node."""
    return folder / f"{safe_name(node)}.jsonl"


def read(folder: Path, node: str) -> list[Line]:
    """A node's whole lines, oldest first; none where there is no file. Raises OSError."""
    try:
        content = path_of(folder, node).read_bytes()
    except FileNotFoundError:
        return []
    return [line for raw in content.split(b"\n") if (line := _line(raw)) is not None]


def _line(raw: bytes) -> Line | None:
    """A line with all that makes one; anything else was torn by a kill."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return None
    part = _KINDS.get(str(value.get("kind")))
    return value if part and isinstance(value.get(part), dict) else None


def append(folder: Path, node: str, line: Mapping[str, Any]) -> None:
    """Add a line, whole and on the disk. Raises OSError when it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, node)
    fresh = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        # The lock ends with the descriptor, however this process ends.
        fcntl.flock(handle, fcntl.LOCK_EX)
        _write(handle, json.dumps({"schema": SCHEMA, **line}, sort_keys=True).encode() + b"\n")
    finally:
        os.close(handle)
    if fresh:
        _sync(folder)


def _write(handle: int, data: bytes) -> None:
    size = os.fstat(handle).st_size
    torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
    whole = b"\n" * torn + data
    if os.write(handle, whole) != len(whole):
        os.ftruncate(handle, size)
        raise OSError("no room for another line")
    os.fsync(handle)


def _sync(folder: Path) -> None:
    """Put the name of a new file on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
