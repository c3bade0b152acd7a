"""The mark of a node that needs manual repair: who set it, when, why, and where the evidence is.

{"schema": "b200kit/watchdog-mark/1", "who": "b200-watchdog", "when": "2026-11-21T09:40:00Z",
 "why": "...", "evidence": "/var/lib/b200kit/watchdog/...", "action": "reset-gpu"}

The first mark stands until a person removes the file; check.py shows it until then.
"""

from __future__ import annotations

import json
from pathlib import Path

from b200kit.node.lib import durable_files, timestamp
from b200kit.node.state.watchdog import MARK, MARK_SCHEMA

PATH = Path(MARK)


def is_marked(path: Path = PATH) -> bool:
    """Whether the node is marked. Raises OSError when that is unknown."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def mark(who: str, why: str, evidence: str, action: str, path: Path = PATH) -> None:
    """Mark the node, unless it is marked already. Raises OSError."""
    if is_marked(path):
        return
    when = timestamp.now()
    document = {
        "schema": MARK_SCHEMA,
        "who": who,
        "when": when,
        "why": why,
        "evidence": evidence,
        "action": action,
    }
    durable_files.replace(path, json.dumps(document) + "\n")
