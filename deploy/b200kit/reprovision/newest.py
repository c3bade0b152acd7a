"""What the last line of a node's file says, for a look at a whole fleet.

Each line says what all up to it add up to, so the last one is all that is read of a file. What
cannot be read raises Damaged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.reprovision.ledger import Damaged, unknown, whole
from b200kit.run import chain, jsonl


def out(folder: Path, node: str) -> str | None:
    """By what cause a transaction keeps a node out of service; None where none does."""
    after = _newest(folder, node)
    return str(after.get("cause")) if after.get("tx") else None


def last_change(folder: Path, node: str) -> dict[str, Any]:
    """{"title", "bad", "outcome"} of the last change a node was taken out for; {} without one."""
    return dict(_newest(folder, node).get("change") or {})


def _newest(folder: Path, node: str) -> dict[str, Any]:
    path = jsonl.path_of(folder, node)
    found = whole(path, lambda path: chain.newest(jsonl.backwards(path)))
    if not found.entries:
        return {}
    after = found.entries[-1].get("after")
    if not isinstance(after, dict):
        raise Damaged(unknown(path, "its last line does not say where the node stands"))
    return after
