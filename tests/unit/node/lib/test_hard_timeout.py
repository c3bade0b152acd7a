"""A helper program gets its time, and what it started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from b200kit.node.lib import hard_timeout
from tests.messages import assert_message, raises_message


def test_output_and_status_are_handed_on() -> None:
    done = hard_timeout.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.returncode, done.stdout, hard_timeout.last_line(done)) == (3, b"out\n", "err")


def test_silent_failure_is_said() -> None:
    done = hard_timeout.run(["sh", "-c", "exit 4"], 10)
    assert_message(hard_timeout.last_line(done))


def test_program_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    kept = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {kept}; wait"
    with raises_message(TimeoutError):
        hard_timeout.run(["sh", "-c", script], 0.5)
    pid = kept.read_text().strip()
    seen = subprocess.run(["ps", "-o", "stat=", pid], capture_output=True, text=True, check=False)
    # Gone, or dead and not yet buried by whoever it belongs to now.
    assert seen.stdout.strip()[:1] in ("", "Z")


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_nothing_ends_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As in the driver: SIGKILL is sent and changes nothing.
    monkeypatch.setattr("os.killpg", lambda pid, number: None)
    monkeypatch.setattr(hard_timeout, "GRACE_S", 0.1)
    kept = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        hard_timeout.run(["sh", "-c", f"echo $$ > {kept}; exec sleep 600"], 0.5)
    assert time.monotonic() - began < 300
    os.kill(int(kept.read_text()), signal.SIGKILL)
