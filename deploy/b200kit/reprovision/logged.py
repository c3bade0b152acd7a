"""What the log of all actions says of each node: it has an action before the node's file has it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.node.lib.documents import understood
from b200kit.reprovision.ledger_line import AuditLine, LedgerLine
from b200kit.run import jsonl
from b200kit.run.chain import Chain
from b200kit.run.places import safe_name


@dataclass
class NodeActions:
    """The newest actions on a node, each of another run, and the digest of the one *before* them.

    A controller that dies between its two writes leaves one action that the log alone has: no
    others than these may be missing from the node's file.
    """

    before: str = ""
    newest: list[AuditLine] = field(default_factory=list)

    def add(self, action: AuditLine) -> None:
        """One more."""
        for number, other in enumerate(self.newest):
            if other.run == action.run:
                self.before, self.newest = other.digest, self.newest[number + 1 :]
                break
        self.newest.append(action)

    @property
    def leaves_out(self) -> bool:
        """Whether the node is out of service after the last."""
        return bool(self.newest) and self.newest[-1].leaves_out

    def missing(self, known: Collection[str]) -> list[str] | None:
        """What only the log has, oldest first; None where lines were taken off the node's file."""
        found = [self.before, *(action.digest for action in self.newest)]
        for number in range(len(found), 0, -1):
            if found[number - 1] in known or not found[number - 1]:
                return found[number:]
        return None

    def lost(self, path: Path, found: Chain[LedgerLine]) -> str:
        """Why a node's file is not all that it was; empty where it is."""
        is_all = self.missing({d for line in found.entries for d in line.logged}) is not None
        if found.entries:
            return "" if is_all else "the log has later actions on the node than it"
        if found.torn:
            return "no line of it is an entry"
        is_there = path.exists()
        if not is_all and self.leaves_out:
            state = "empty" if is_there else "gone"
            return f"it is {state}, and the log has the node out of service"
        # Of a controller that was killed in the first claim of all an empty file is left.
        return "it is empty" if is_there and not (is_all and self.newest) else ""


@dataclass
class _LogPosition:
    """How far a log was read, and what it says of each node up to there."""

    inode: int
    end: int = 0
    nodes: dict[str, NodeActions] = field(default_factory=lambda: defaultdict(NodeActions))


_POSITIONS: dict[Path, _LogPosition] = {}


def read(log: Path) -> Mapping[str, NodeActions]:
    """What it says of each node, by the name of its file; raises OSError.

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
            known.nodes[safe_name(action.node)].add(action)
    known.end += len(whole)
    return known.nodes


def of_node(log: Path, node: str) -> NodeActions:
    """What it says of one node."""
    return read(log).get(safe_name(node), NodeActions())
