"""Setting the mark of a node that needs manual repair (b200kit/node/state/watchdog.py).

The first mark stands until a person removes the file; check.py shows it until then.
"""

from __future__ import annotations

from pathlib import Path

from b200kit.node.lib import documents, durable_files, timestamp
from b200kit.node.state.verdict import Action
from b200kit.node.state.watchdog import MARK, WatchdogMark

PATH = Path(MARK)


def is_marked(path: Path = PATH) -> bool:
    """Whether the node is marked. Raises OSError when that is unknown."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def mark(who: str, why: str, evidence: str, action: Action, path: Path = PATH) -> None:
    """Mark the node, unless it is marked already. Raises OSError."""
    if is_marked(path):
        return
    content = WatchdogMark(who, timestamp.now(), why, evidence, action)
    durable_files.replace(path, documents.to_bytes(content))
