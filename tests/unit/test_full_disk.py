"""A disk that is full, on the controller and on a node: nothing is lost, one line says it, and the
next run goes on.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from b200kit.node import gate
from b200kit.node.checks.judge import judge
from b200kit.node.lib import durable_files, lock
from b200kit.report import files
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import full_disk, own_state, states

ROOT = Path(__file__).resolve().parents[2]
BIG = 8192


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    with full_disk.small(tmp_path) as folder:
        yield folder


def listed(folder: Path) -> dict[str, bytes]:
    """Every file with its content, but for what fills the disk."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    return {name: content for name, content in found.items() if name != full_disk.FILLER}


def put(path: Path, content: bytes) -> subprocess.CompletedProcess[str]:
    """The node program's own way of writing a file of a stage."""
    entry = {"path": str(path), "content": base64.b64encode(content).decode(), "mode": 0o644}
    document = {"files": [{**entry, "owner": "root:root"}]}
    with TemporaryDirectory() as state:
        return subprocess.run(
            [sys.executable, "-c", own_state.PROGRAM, ROOT / "deploy", state, "put_files"],
            input=json.dumps(document), capture_output=True, text=True, check=False,
        )  # fmt: skip


def replaced(path: Path, text: str) -> None:
    """State, verdict, lock and status files of a node."""
    durable_files.replace(path, text * BIG)


def reported(path: Path, text: str) -> None:
    """A file of a report."""
    files.write_text(path, text * BIG)


WRITERS: list[Callable[[Path, str], None]] = [replaced, reported]


@in_subtests("write", WRITERS)
@in_subtests("left", [0, 4096])
def test_file_is_as_it_was_and_is_written_when_there_is_room_again(
    write: Callable[[Path, str], None], left: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with full_disk.small(tmp_path_factory.mktemp("disk")) as disk:
        path = disk / "file"
        write(path, "a")
        before = listed(disk)
        full_disk.fill(disk, but=left)
        with pytest.raises(OSError, match=r"No space left on device, 8192 bytes to write") as no:
            write(path, "b")
        assert no.value.filename == str(path)
        assert listed(disk) == before
        full_disk.empty(disk)
        write(path, "b")
        assert path.read_bytes() != before["file"]


def shown(text: str, disk: Path) -> str:
    """A message without where this test's disk is."""
    return text.replace(str(disk), "DISK")


def test_stage_that_cannot_write_a_file_says_path_and_bytes_in_one_line(disk: Path) -> None:
    path = disk / "haproxy.cfg"
    assert put(path, b"old").returncode == 0
    full_disk.fill(disk)
    refused = put(path, b"x" * BIG)
    assert refused.returncode == 1
    assert_message(shown(refused.stderr, disk))
    assert listed(disk) == {"haproxy.cfg": b"old"}
    full_disk.empty(disk)
    assert put(path, b"x" * BIG).returncode == 0


def test_lock_that_cannot_be_kept_is_not_held(disk: Path) -> None:
    full_disk.fill(disk)
    ask = {"owner": "alice@one pid 1", "run": "a", "ttl_s": 600}
    answer: Any = None
    try:
        answer = lock.request(ask, disk)
    except OSError as error:
        answer = {"unmeasured": str(error)}
    assert answer.get("acquired") is not True
    full_disk.empty(disk)
    assert lock.request(ask, disk)["acquired"] is True


def test_gate_stays_closed_for_an_unfit_node_and_says_what_was_not_kept(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full_disk.fill(disk)
    verdict = judge({}, states.healthy())
    gate.record(verdict, disk / "verdict.json")
    assert verdict.exit_status != 0
    # A verdict says how long it took, in as many digits as that has.
    said = re.sub(r"\d+ bytes to write", "N bytes to write", capsys.readouterr().err)
    assert_message(shown(said, disk))
    assert listed(disk) == {}
