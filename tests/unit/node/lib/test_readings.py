"""Readings: a value, or why there is none, from files and helper commands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from b200kit.node.lib import readings


def test_failing_reader_gives_its_error_as_the_reason() -> None:
    reading = readings.attempt(lambda: readings.text("/no/such/file"))
    assert "FileNotFoundError" in reading["unmeasured"]
    assert readings.is_unmeasured(reading)


def test_reason_is_one_line_and_never_empty() -> None:
    assert readings.unmeasured("a\n b") == {"unmeasured": "a b"}
    assert readings.unmeasured("")["unmeasured"]


def test_only_an_object_with_a_reason_is_an_unmeasured_reading() -> None:
    assert not readings.is_unmeasured({"more": 1})
    assert not readings.is_unmeasured("unmeasured")
    # Whatever else is in it: where a reason is given there is no value.
    assert readings.reason({"unmeasured": "x", "more": 1}) == "x"
    assert readings.reason({"unmeasured": 5}) == "no reason given"
    assert readings.reason({"more": 1}) is None


def test_bytes_that_are_no_text_do_not_stop_a_reading(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff1\n")
    assert readings.text(tmp_path / "f").endswith("1")


def test_command_that_fails_says_its_last_line() -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('first\\nlast')"]
    with pytest.raises(OSError, match="exited 1: last"):
        readings.command(argv)


def test_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "COMMAND_TIMEOUT_S", 0.05)
    with pytest.raises(OSError, match="took more than"):
        readings.command([sys.executable, "-c", "import time; time.sleep(60)"])


def test_command_that_is_not_there_is_a_reading() -> None:
    assert readings.is_unmeasured(readings.attempt(lambda: readings.command(["no-such-program"])))
