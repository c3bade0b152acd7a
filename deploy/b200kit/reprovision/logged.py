"""What the log of all actions says of each node: it has an action before the node's file has it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.node.lib.documents import understood
from b200kit.reprovision.ledger_line import AuditLine, LedgerLine
from b200kit.run import jsonl
from b200kit.run.chain import Chain
from b200kit.run.places import safe_name


@dataclass
class _LogPosition:
    """How far a log was read, and what it says last of each node up to there."""

    inode: int
    end: int = 0
    newest: dict[str, AuditLine] = field(default_factory=dict)


_POSITIONS: dict[Path, _LogPosition] = {}


def newest(log: Path) -> Mapping[str, AuditLine]:
    """The newest action on each node, by the name of its file; raises OSError.

    The log only grows: what was read of it is not read again.
    """
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return {}
    with file:
        status = os.fstat(file.fileno())
        known = _POSITIONS.get(log)
        if known is None or known.inode != status.st_ino or known.end > status.st_size:
            known = _POSITIONS[log] = _LogPosition(status.st_ino)
        file.seek(known.end)
        raw = file.read()
    whole = raw[: raw.rfind(b"\n") + 1]
    for _, entry in jsonl.lines(whole):
        if action := understood(AuditLine, entry):
            known.newest[safe_name(action.node)] = action
    known.end += len(whole)
    return known.newest


def lost(path: Path, found: Chain[LedgerLine], last: AuditLine | None) -> str:
    """Why a node's file is not all that it was, as *last* is the log's newest action; or nothing.

    Of a file with an entry that is for its chain to say.
    """
    if found.entries:
        return ""
    if found.torn:
        return "no line of it is an entry"
    is_there = path.exists()
    if last and last.leaves_out:
        return f"it is {'empty' if is_there else 'gone'}, and the log has the node out of service"
    # Of a controller that was killed in the first claim of all an empty file is left.
    return "it is empty" if is_there and not (last and last.kind == "claim") else ""


def left(log: Path, node: str, known: Sequence[str]) -> list[str]:
    """Actions that controllers wrote to the log and died before they wrote them to the node's file.

    Oldest first. A controller leaves one. Where there are more of one run, lines were taken away
    from the node's file: they stay missing, for `b200 audit verify` to name.
    """
    found: dict[str, str] = {}
    for raw in jsonl.backwards(log):
        action = understood(AuditLine, jsonl.parsed(raw))
        if action is None or safe_name(action.node) != safe_name(node):
            continue
        if action.digest in known:
            break
        if action.run in found:
            return []
        found[action.run] = action.digest
    return [*reversed(found.values())]
