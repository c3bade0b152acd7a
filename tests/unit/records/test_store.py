"""Appending to a record: on the disk before it returns, whole or not at all, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from b200kit.records import store
from b200kit.records.store import append, read
from b200kit.run.jsonl import path_of
from tests.unit.records import runs

ROOT = Path(__file__).parents[3]
WRITER = """
import sys
from pathlib import Path
from b200kit.records.store import append
from tests.unit.records import runs
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    append(Path(sys.argv[1]), "n01", runs.run(number))
    print(number, flush=True)
"""


def writer(folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    """A process that appends runs and says the number of each that is on the disk."""
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(last)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_entry_is_read_again_and_the_directory_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert append(folder, "n01", runs.run(0))
    assert [run.run for run in read(folder, "n01").runs] == ["run-0"]
    assert store.nodes(folder) == ["n01"]


def test_same_measurement_is_entered_once(tmp_path: Path) -> None:
    assert append(tmp_path, "n01", runs.run(0))
    before = path_of(tmp_path, "n01").read_bytes()
    assert not append(tmp_path, "n01", runs.run(0))
    assert path_of(tmp_path, "n01").read_bytes() == before


def test_node_without_a_record_has_an_empty_one(tmp_path: Path) -> None:
    assert read(tmp_path, "n01").entries == ()


@pytest.mark.parametrize("name", ["../../etc/passwd", "n01/../n02", "", "a b", ".hidden"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    append(tmp_path / "records", name, runs.run(0))
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [tmp_path / "records"]
    assert len(read(tmp_path / "records", name).runs) == 1


def test_killed_writer_loses_nothing_that_it_had_finished(tmp_path: Path) -> None:
    process = writer(tmp_path, 0, 100_000)
    assert process.stdout is not None
    finished = [int(process.stdout.readline()) for _ in range(5)]
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    process.stdout.close()
    known = read(tmp_path, "n01")
    assert [run.run for run in known.runs[:5]] == [f"run-{n}" for n in finished]
    assert (len(known.torn) <= 1, known.damage) == (True, ())
    assert append(tmp_path, "n01", runs.run(200_000))
    assert read(tmp_path, "n01").runs[-1].run == "run-200000"


def test_two_writers_do_not_tear_each_others_lines(tmp_path: Path) -> None:
    both = [writer(tmp_path, first, first + 12) for first in (0, 100)]
    for process in both:
        assert process.communicate(timeout=300)[0]
        assert process.returncode == 0
    known = read(tmp_path, "n01")
    assert (len(known.runs), known.torn, known.damage) == (24, (), ())


def test_torn_line_stays_and_the_next_entry_begins_behind_it(tmp_path: Path) -> None:
    append(tmp_path, "n01", runs.run(0))
    append(tmp_path, "n01", runs.run(1))
    path = path_of(tmp_path, "n01")
    torn = path.read_bytes()[:-700]
    path.write_bytes(torn)
    append(tmp_path, "n01", runs.run(2))
    known = read(tmp_path, "n01")
    assert path.read_bytes().startswith(torn)
    assert [run.run for run in known.runs] == ["run-0", "run-2"]
    assert (len(known.torn), known.damage) == (1, ())


def test_disk_that_takes_half_an_entry_keeps_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, "n01", runs.run(0))
    before = path_of(tmp_path, "n01").read_bytes()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    with pytest.raises(OSError, match="No space left on device"):
        append(tmp_path, "n01", runs.run(1))
    assert path_of(tmp_path, "n01").read_bytes() == before


def test_directory_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(store.VARIABLE, raising=False)
    assert store.directory() == ROOT / "records"
    assert store.directory("team/records") == ROOT / "team" / "records"
    assert store.directory("/srv/records") == Path("/srv/records")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    assert store.directory() == tmp_path
    assert store.directory("/srv/records") == tmp_path
