"""`node.pyz metrics`: where it is written, looks that are counted, and the HTTP answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from b200kit.node.events.spool import Spool
from b200kit.node.lib import managed_files
from b200kit.node.metrics import command


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A node without anything."""
    monkeypatch.setattr(command, "FILE", tmp_path / "metrics.prom")
    monkeypatch.setattr(command, "LOOKS", tmp_path / "looks.json")
    monkeypatch.setattr(command, "TEXTFILES", tmp_path / "textfiles")
    monkeypatch.setattr(managed_files, "STATE_DIRECTORY", tmp_path)
    monkeypatch.setenv("SERVICE_RESULT", "")
    return tmp_path


def written(folder: Path, result: str) -> str:
    """The page after a look that ended so."""
    os.environ["SERVICE_RESULT"] = result
    assert command.main(["--serving", str(folder / "serving.json")]) == 0
    return (folder / "metrics.prom").read_text()


def test_every_look_counts_however_it_ended(places: Path) -> None:
    written(places, "success")
    written(places, "timeout")
    page = written(places, "timeout")
    assert 'b200_looks_total{result="success"} 1' in page
    assert 'b200_looks_total{result="timeout"} 2' in page


def test_node_exporter_gets_the_same_where_it_has_a_folder(places: Path) -> None:
    written(places, "success")
    assert not (places / "textfiles").exists()
    (places / "textfiles").mkdir()
    page = written(places, "success")
    assert (places / "textfiles" / "b200kit.prom").read_text() == page


def test_an_answer_is_the_page_or_says_that_there_is_none(places: Path) -> None:
    get = b"GET /metrics HTTP/1.1\r\n\r\n"
    assert command.answer(get).startswith(b"HTTP/1.0 503 ")
    page = written(places, "success").encode()
    head, _, body = command.answer(get).partition(b"\r\n\r\n")
    assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.0 200 OK", page)
    assert command.answer(b"POST /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 405 ")


def test_a_full_disk_is_one_line(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (places / "metrics.prom").mkdir()
    assert command.main(["--serving", "/x"]) == 1
    assert capsys.readouterr().err.startswith("metrics: ")


def test_events_that_cannot_be_counted_are_not_none_at_all(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "events", tmp_path / "events.json")
    assert command._events(spool) is None
    spool.config.touch()
    assert command._events(spool) == (0, 0)
    spool.directory.mkdir()
    (spool.directory / "1-2.json").touch()
    (spool.directory / ".dropped").write_text("3\n")
    assert command._events(spool) == (1, 3)
    (spool.directory / ".dropped").write_text("many")
    assert command._events(spool) is None
