"""The folder of a run: read strictly, mended, and closed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from b200kit.node.acceptance import folder
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.documents import Malformed
from tests.messages import raises_message
from tests.unit.node.acceptance.runs import lines, plan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run of which two segments are over."""
    run = plan()
    durable_files.replace(tmp_path / "run" / folder.PLAN, documents.to_bytes(run))
    for line in lines(run)[:2]:
        folder.append(tmp_path / "run", line)
    return tmp_path / "run"


def test_what_is_written_is_what_is_read(path: Path) -> None:
    run = plan()
    assert folder.read(path) == (run, lines(run)[:2])


BROKEN = {
    "torn": ("}\n", "}"),
    "outcome": ('"done"', '"passed"'),
    "key": ('"attempt"', '"try"'),
    "empty": ("}\n", "}\n\n"),
    "nan": ("800.0", "NaN"),
    "schema": ("line/1", "line/2"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_line_that_is_none_is_refused_and_named(path: Path, how: str) -> None:
    file = path / folder.LINES
    head, tail = file.read_text().rsplit("\n", 2)[:2]
    file.write_text(f"{head}\n" + f"{tail}\n".replace(*BROKEN[how]))
    with raises_message(Malformed):
        folder.read(path)


def test_plan_that_is_none_is_refused(path: Path) -> None:
    file = path / folder.PLAN
    file.write_text(file.read_text().replace('"smoke"', '"short"'))
    with raises_message(Malformed):
        folder.read(path)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        folder.read(path)


def test_torn_line_is_cut_off_and_nothing_else(path: Path) -> None:
    file = path / folder.LINES
    whole = file.read_bytes()
    folder.mend(path)
    assert file.read_bytes() == whole
    file.write_bytes(whole + whole[: len(whole) // 4])
    assert len(folder.read(path, half="ignored")[1]) == 2
    folder.mend(path)
    assert file.read_bytes() == whole


def test_line_that_the_disk_has_no_room_for_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        del handle
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    whole = (path / folder.LINES).read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"lines\.jsonl"):
        folder.append(path, lines(plan())[2])
    assert (path / folder.LINES).read_bytes() == whole


def test_sums_are_of_every_file_but_themselves(path: Path) -> None:
    (path / folder.RAW).mkdir()
    (path / folder.RAW / "001-facts-1.out").write_text("x")
    for name in (folder.SUMS, folder.SIGNATURE):
        (path / name).write_text("")
    names = [line.partition("  ")[2] for line in folder.sums(path).decode().splitlines()]
    assert names == [folder.LINES, folder.PLAN, "raw/001-facts-1.out"]
