"""Where the cells of a tuning are stored: one file of JSON lines a node, beside the records.

A line is on the disk before `append` returns (b200kit/run/jsonl.py), so a tuning that is killed at
any moment loses only what it was measuring. A torn line is skipped. Nothing is rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from b200kit.run import jsonl
from b200kit.run.places import home

VARIABLE = "B200_TUNING"
"""Names another directory."""
SCHEMA = "b200kit/tuning-line/1"
_KINDS = {"cell": "cell", "layout": "layout"}

Line = dict[str, Any]


def directory(records: str | None = None) -> Path:
    """The directory of all tunings, beside that of the *records* that the inventory names."""
    return Path(os.environ.get(VARIABLE) or (home() / (records or "records")).parent / "tuning")


def read(folder: Path, node: str) -> list[Line]:
    """A node's whole lines, oldest first; none where there is no file. Raises OSError."""
    content = jsonl.read(jsonl.path_of(folder, node))
    return [line for _, line in jsonl.lines(content) if line is not None and _is_whole(line)]


def _is_whole(line: Line) -> bool:
    """Whether it has all that makes a line; any other was torn by a kill."""
    part = _KINDS.get(str(line.get("kind")))
    return bool(part) and line.get("schema") == SCHEMA and isinstance(line.get(str(part)), dict)


def append(folder: Path, node: str, line: Mapping[str, Any]) -> None:
    """Add a line, whole and on the disk. Raises OSError when it cannot be written."""
    text = json.dumps({"schema": SCHEMA, **line}, sort_keys=True) + "\n"
    jsonl.append(jsonl.path_of(folder, node), lambda _: text)
