"""The program and what was compiled of it: which of the two is imported, and that both are one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from b200kit.node.lib import compiled
from b200kit.run import zipapp


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The node program as installed in a folder of the test's."""
    path = tmp_path / "node.pyz"
    write(path)
    return path


def write(path: Path, more: bytes = b"") -> None:
    """The program for that place, as a put writes it: a new file in the place of the old."""
    source, _ = zipapp.build()
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("compiled.py"):
                text = text.replace(compiled.INSTALLED.encode(), str(path).encode()) + more
            new.writestr(name, text)
    path.with_suffix(".new").write_bytes(made.getvalue())
    path.with_suffix(".new").replace(path)


def place(program: Path) -> Path:
    """Where its compiled archive is to be."""
    return Path(compiled.place(str(program)) or pytest.fail("no program"))


def imported(program: Path) -> str:
    """What the package is imported from when the program runs."""
    done = subprocess.run(
        [sys.executable, "-I", "-v", str(program)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "usage: node.pyz" in done.stderr) == (2, True), done.stderr[-2000:]
    return next(line for line in done.stderr.splitlines() if "import 'b200kit.node.cli'" in line)


def test_the_compiled_archive_is_imported_where_there_is_one(program: Path) -> None:
    assert str(place(program)) not in imported(program)
    compiled.make(str(program))
    assert str(place(program)) in imported(program)


@pytest.mark.process
def test_one_of_another_program_is_never_taken(program: Path) -> None:
    compiled.make(str(program))
    before = place(program)
    write(program)
    assert place(program) != before
    assert str(before) not in imported(program)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"no archive"])
def test_a_broken_one_is_passed_over(program: Path, content: bytes) -> None:
    place(program).write_bytes(content)
    assert str(place(program)) not in imported(program)


@pytest.mark.process
def test_the_former_one_stays_for_whoever_imports_from_it_and_no_older(program: Path) -> None:
    for number in range(3):
        write(program, f"# {number}\n".encode())
        compiled.make(str(program))
        os.utime(place(program), (number, number))
    assert len([*program.parent.iterdir()]) == 1 + 2


@pytest.mark.process
def test_what_a_killed_one_left_is_removed(program: Path) -> None:
    left = program.parent / ".compiled-x"
    (left / "files").mkdir(parents=True)
    compiled.make(str(program))
    assert sorted(program.parent.iterdir()) == sorted([program, place(program)])


def test_without_a_program_nothing_is_compiled(tmp_path: Path) -> None:
    compiled.make(str(tmp_path / "node.pyz"))
    assert [*tmp_path.iterdir()] == []


def test_a_process_knows_the_program_it_was_compiled_from() -> None:
    beside = compiled.INSTALLED.replace(".pyz", "-1-2-cpython-311.zip")
    assert compiled.source_of(beside) == compiled.INSTALLED
    assert compiled.source_of("/run/b200kit/1234.pyz") == "/run/b200kit/1234.pyz"
    assert compiled.source_of("/srv/deploy") == "/srv/deploy"
