"""Where records are stored: one file of JSON lines a node, in a directory that outlives all runs.

An entry is written by one `write` to the end of the file, under a lock, and is on the disk before
`append` returns. A writer that is killed leaves the whole line, or a torn one that the next reader
names and the next writer begins a new line after. Nothing is ever rewritten or taken away.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from b200kit.records import entries
from b200kit.records.entries import Record, RecordError
from b200kit.run.file_names import safe_name
from b200kit.run.places import home

VARIABLE = "B200_RECORDS"
"""Names another directory, such as one that the whole team shares; it goes before the inventory."""


def directory(requested: str | None = None) -> Path:
    """The directory of all records; *requested*: the inventory's, from the checkout's root."""
    return Path(os.environ.get(VARIABLE) or home() / (requested or "records"))


def path_of(folder: Path, node: str) -> Path:
    """The file of a node."""
    return folder / f"{safe_name(node)}.jsonl"


def nodes(folder: Path) -> list[str]:
    """Names of the files there are, without their ending, sorted."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def read(folder: Path, node: str) -> Record:
    """A node's record, empty where there is none. Raises OSError when it cannot be read."""
    try:
        return entries.parse(path_of(folder, node).read_bytes())
    except FileNotFoundError:
        return Record()


def append(folder: Path, node: str, entry: Mapping[str, Any]) -> bool:
    """Add an entry, whole or not at all; False when this very measurement is in it already.

    Raises OSError when it cannot be written, and RecordError when the disk took half of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, node)
    fresh = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        # The lock ends with the descriptor, however this process ends.
        fcntl.flock(handle, fcntl.LOCK_EX)
        added = _append(handle, path, entry)
    finally:
        os.close(handle)
    if fresh:
        _sync(folder)
    return added


def _append(handle: int, path: Path, entry: Mapping[str, Any]) -> bool:
    content = path.read_bytes()
    known = entries.parse(content)
    if entry["kind"] == "run" and known.holds(entry):
        return False
    torn = content and not content.endswith(b"\n")
    data = b"\n" * bool(torn) + entries.line(entry, known.last).encode()
    written = os.write(handle, data)
    if written != len(data):
        os.ftruncate(handle, len(content))
        raise RecordError(f"{path}: only {written} of {len(data)} bytes could be written")
    os.fsync(handle)
    return True


def _sync(folder: Path) -> None:
    """Put the name of a new file on the disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
