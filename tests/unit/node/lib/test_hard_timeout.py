"""A helper program gets its time, and what it started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import hard_timeout
from tests.messages import assert_message, raises_message


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for the id of a process; the time of a program begins once that is in it."""
    kept = tmp_path / "pid"
    communicate = subprocess.Popen.communicate

    def once_begun(process: subprocess.Popen[bytes], *more: Any, **named: Any) -> Any:
        until(lambda: kept.exists() and kept.read_text().endswith("\n"))
        return communicate(process, *more, **named)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_begun)
    return kept


def until(true: Callable[[], bool]) -> None:
    """Return when it holds."""
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_output_and_status_are_handed_on() -> None:
    done = hard_timeout.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.returncode, done.stdout, hard_timeout.last_line(done)) == (3, b"out\n", "err")


def test_silent_failure_is_said() -> None:
    done = hard_timeout.run(["sh", "-c", "exit 4"], 10)
    assert_message(hard_timeout.last_line(done))


def test_program_that_takes_too_long_ends_with_its_children(begun: Path) -> None:
    script = f"sleep 600 & echo $! > {begun}; wait"
    with raises_message(TimeoutError):
        hard_timeout.run(["sh", "-c", script], 0.5)
    # Gone, or dead and not yet buried by whoever it belongs to now.
    until(lambda: _state(begun.read_text().strip()) in ("", "Z"))


def _state(pid: str) -> str:
    seen = subprocess.run(["ps", "-o", "stat=", pid], capture_output=True, text=True, check=False)
    return seen.stdout.strip()[:1]


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_nothing_ends_is_left_behind(monkeypatch: pytest.MonkeyPatch, begun: Path) -> None:
    # As in the driver: SIGKILL is sent and changes nothing.
    monkeypatch.setattr("os.killpg", lambda pid, number: None)
    monkeypatch.setattr(hard_timeout, "GRACE_S", 0.1)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        hard_timeout.run(["sh", "-c", f"echo $$ > {begun}; exec sleep 600"], 0.5)
    assert time.monotonic() - began < 300
    os.kill(int(begun.read_text()), signal.SIGKILL)


def test_output_goes_into_files_and_what_was_left_running_is_ended(tmp_path: Path) -> None:
    kept, out, err = (tmp_path / name for name in ("pid", "out", "err"))
    script = f"sleep 600 & echo $! > {kept}; pwd; echo err >&2; exit 3"
    with out.open("wb") as to, err.open("wb") as errors:
        status = hard_timeout.into(["sh", "-c", script], 300, to, errors, folder=tmp_path)
    assert (status, out.read_text(), err.read_text()) == (3, f"{tmp_path}\n", "err\n")
    until(lambda: _state(kept.read_text().strip()) in ("", "Z"))


@pytest.mark.parametrize("trap", ["trap 'echo asked; exit 1' TERM", "trap '' TERM"])
def test_program_whose_time_is_up_is_asked_and_then_killed(
    trap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hard_timeout, "ASKED_S", 0.5)
    kept, out = tmp_path / "pid", tmp_path / "out"
    wait = subprocess.Popen.wait

    def once_begun(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        until(lambda: kept.exists() and kept.read_text().endswith("\n"))
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", once_begun)
    script = f"{trap}; sleep 600 & echo $! > {kept}; wait; wait"
    with out.open("wb") as to, raises_message(TimeoutError):
        hard_timeout.into(["sh", "-c", script], 0.1, to, to)
    assert out.read_text() == ("asked\n" if "asked" in trap else "")
    until(lambda: _state(kept.read_text().strip()) in ("", "Z"))
