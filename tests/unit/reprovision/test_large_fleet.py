"""What a thousand nodes and a long log cost, in bytes that are read."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.reprovision import Reprovision
from b200kit.inventory.keys.rollout import Rollout
from b200kit.reprovision import ledger
from b200kit.reprovision.fleet_limits import Safety
from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import AuditLine, ClaimLine, FailedLine, IntentLine, Standing
from b200kit.reprovision.states import State
from b200kit.run import chain, jsonl

NODES = 1000
AUDIT = ledger.AUDIT.removesuffix(".jsonl")


class Counted(io.FileIO):
    """A file whose reads are counted."""

    bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        """The same, counted."""
        data = super().read(-1 if size is None else size) or b""
        Counted.bytes_read += len(data)
        return data


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Counted]]:
    """Counts all that is read of files by their paths."""

    def opened(path: Path, mode: str = "r") -> io.IOBase:
        assert mode == "rb"
        return Counted(path)

    Counted.bytes_read = 0
    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(Path, "read_bytes", lambda path: Counted(path).read())
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    return iter([Counted])


def history(folder: Path, name: str, count: int) -> None:
    """A file of a node that is out, after so many lines."""
    last, text = "", []
    for number in range(count):
        head: dict[str, Any] = {
            "node": name,
            "tx": "t",
            "who": "alice",
            "run": str(number),
            "at": str(number),
        }
        if name == AUDIT:
            entry: object = AuditLine(
                kind="claim", before=State.SERVING, after=State.SERVING, **head
            )
        else:
            entry = ClaimLine(after=Standing("t", "c"), **head)
        line, last = chain.line(entry, last)
        text.append(line)
    with open(jsonl.path_of(folder, name), "w") as file:
        file.write("".join(text))


def test_safety_look_reads_the_end_of_each_file_whatever_its_length(
    tmp_path: Path, counted: Iterator[type[Counted]]
) -> None:
    names = tuple(f"n{number:04d}" for number in range(NODES))
    for name in names[::2]:
        history(tmp_path, name, 60)
    size = jsonl.path_of(tmp_path, names[0]).stat().st_size
    assert size > 10_000
    safety = Safety(folder=tmp_path, inventory=names)
    spec = SimpleNamespace(reprovision=Reprovision(), rollout=Rollout())
    fleet = safety.fleet(SimpleNamespace(name="n0001", spec=spec))  # type: ignore[arg-type]
    assert len(fleet.out) == NODES // 2
    assert next(counted).bytes_read <= NODES // 2 * 4096


def test_log_is_read_once_for_all_nodes_without_a_file(
    tmp_path: Path, counted: Iterator[type[Counted]]
) -> None:
    history(tmp_path, AUDIT, 5000)
    log = tmp_path / ledger.AUDIT
    assert [ledger.out(tmp_path, f"n{number}") for number in range(NODES)] == [None] * NODES
    assert next(counted).bytes_read == log.stat().st_size


@pytest.mark.parametrize("lines", [10, 5000])
def test_action_reads_a_block_of_each_file_however_long_they_are(
    lines: int, tmp_path: Path, counted: Iterator[type[Counted]]
) -> None:
    history(tmp_path, AUDIT, lines)
    owner = Ledger(tmp_path, "n1", "alice@one pid 1", "a")
    owner.claim()
    count = next(counted)
    count.bytes_read = 0
    for number in range(10):
        owner.append(IntentLine(step="quarantine", id=str(number)))
        owner.append(FailedLine(back=False))
    assert count.bytes_read <= 20 * 2 * 4096
    owner.release()
