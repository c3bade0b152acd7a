"""Where records are stored: one file of JSON lines a node, in a directory that outlives all runs.

Nothing is ever rewritten or taken away; how a line is written: b200kit/run/jsonl.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from b200kit.records import entries
from b200kit.records.entries import AnyEntry, Record
from b200kit.run import jsonl
from b200kit.run.places import home

VARIABLE = "B200_RECORDS"
"""Names another directory, such as one that the whole team shares; it goes before the inventory."""


def directory(requested: str | None = None) -> Path:
    """The directory of all records; *requested*: the inventory's, from the checkout's root."""
    return Path(os.environ.get(VARIABLE) or home() / (requested or "records"))


def nodes(folder: Path) -> list[str]:
    """Names of the files there are, without their ending, sorted."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def read(folder: Path, node: str) -> Record:
    """A node's record, empty where there is none. Raises OSError when it cannot be read."""
    return entries.parse(jsonl.read(jsonl.path_of(folder, node)))


def append(folder: Path, node: str, entry: AnyEntry) -> bool:
    """Add an entry, whole or not at all; False when this very measurement or answer is in it.

    Raises OSError when it cannot be written.
    """

    def line(path: Path) -> str | None:
        known = entries.parse(jsonl.read(path))
        return None if known.holds(entry) else entries.line(entry, known.last)

    return jsonl.append(jsonl.path_of(folder, node), line)
