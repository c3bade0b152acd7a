"""What is under way with the nodes of a fleet, by their transactions: for lists and for a look."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from b200kit.report.content.now.node import Planned
from b200kit.reprovision import explain, ledger
from b200kit.reprovision.ledger import Damaged
from b200kit.reprovision.planned_change import Work
from b200kit.reprovision.states import State
from b200kit.reprovision.transaction import Transaction
from b200kit.rollout import progress
from b200kit.run import jsonl
from b200kit.run.node import StageFailed


def line(folder: Path, tx: Transaction) -> str:
    """How far a node's open transaction is, since when, whose it is, and what is next."""
    if tx.state is State.MANUAL:
        return explain.repair_line(tx)
    onward = progress.onward(tx)
    return f"{tx.underway}, out since {tx.opened}{onward}; {_owner(folder, tx)}"


def _owner(folder: Path, tx: Transaction) -> str:
    owner = tx.owner
    if owner is None:
        return "owned by nobody: the next run continues"
    name = f"{owner.who} since {owner.at}"
    if ledger.is_held(folder, tx.node):
        return f"owned by {name}"
    return f"left by {name}, whose process is gone: the next run continues"


def of(folder: Path, names: Iterable[str]) -> tuple[dict[str, Planned], list[str]]:
    """What is done with each of these nodes, and a line for each rollout of theirs."""
    planned: dict[str, Planned] = {}
    found: list[Transaction] = []
    for name in names:
        try:
            tx = _read(folder, name, _stamp(folder, name))
        except StageFailed as error:
            planned[name] = Planned(str(error), damaged=True)
            continue
        found.append(tx)
        if tx.is_open:
            is_change = tx.work is not Work.REPAIR and ledger.is_held(folder, name)
            planned[name] = Planned(line(folder, tx), is_change)
    return planned, list(progress.lines(found))


def _stamp(folder: Path, name: str) -> tuple[int, int]:
    """What a file's content is known by: a fleet's files are read again only where they grew.

    Of a node without a file the log knows.
    """
    try:
        with suppress(FileNotFoundError):
            return _known_by(jsonl.path_of(folder, name))
        with suppress(FileNotFoundError):
            return _known_by(folder / ledger.AUDIT)
    except OSError as error:
        raise Damaged(f"{folder}: {error.strerror}") from None
    return 0, 0


def _known_by(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=4096)
def _read(folder: Path, name: str, stamp: tuple[int, int]) -> Transaction:
    del stamp
    return ledger.read(folder, name)
