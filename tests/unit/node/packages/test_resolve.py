"""`resolve` asks apt on the node: words on stdout, what is missing in the record, or one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.packages import resolve
from tests.messages import assert_message
from tests.unit.node.packages.test_candidates import POLICY

URIS = "http://mirror/vendor/\nhttp://mirror/vendor/\nhttp://mirror/os/\n"


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the record goes; apt-cache and apt-get are programs that answer from a file."""
    for name, answer in (("apt-cache", POLICY), ("apt-get", URIS)):
        (tmp_path / f"{name}.txt").write_text(answer)
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/{name}.txt\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "state" / "packages.json"


def missing(record: Path) -> dict[str, Any]:
    """What the record holds."""
    kept: dict[str, Any] = json.loads(record.read_text())["missing"]
    return kept


def test_words_are_printed_and_what_is_lacking_is_kept(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["nvidia-fabricmanager=580.126.20", "libnvsdm=580.126.20?", "linux-headers-6.18?"]
    assert resolve.main(words, record) == 0
    assert capsys.readouterr().out == "nvidia-fabricmanager=580.126.20-1\n"
    assert list(missing(record)) == ["libnvsdm=580.126.20", "linux-headers-6.18"]
    entry = missing(record)["libnvsdm=580.126.20"]
    assert entry["sources"] == ["http://mirror/vendor/", "http://mirror/os/"]


def test_required_package_that_is_lacking_ends_it_with_one_line(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve.main(["nvlsm=2025.10.11", "nvidia-fabricmanager"], record) == 1
    said = capsys.readouterr().err
    assert_message(said)


def test_package_that_came_meanwhile_is_no_longer_lacking(record: Path) -> None:
    resolve.main(["nvidia-fabricmanager=1?", "libnvsdm=580.126.20?"], record)
    (record.parents[1] / "apt-cache.txt").write_text(
        "libnvsdm:\n  Version table:\n     580.126.20-1 500\n"
    )
    assert resolve.main(["libnvsdm=580.126.20?"], record) == 0
    assert list(missing(record)) == ["nvidia-fabricmanager=1"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"missing": 3}'])
def test_record_that_cannot_be_read_begins_again(record: Path, content: str) -> None:
    record.parent.mkdir()
    record.write_text(content)
    assert resolve.main(["libnvsdm=580.126.20?"], record) == 0
    assert list(missing(record)) == ["libnvsdm=580.126.20"]
