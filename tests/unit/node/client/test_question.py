"""One question to a node's model: answered with figures, or why not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client import question
from tests.unit.node.client.server_thread import MODEL, fast, running
from tests.unit.serving_document import written

Capture = pytest.CaptureFixture[str]


def asked(folder: Path, url: str, capsys: Capture, **changes: Any) -> dict[str, Any]:
    """What the command prints for a server."""
    config = written(folder, url, **changes)
    assert question.main([str(config), base64.b64encode("Grüße?".encode()).decode()]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_answer_has_its_text_and_figures(tmp_path: Path, capsys: Capture) -> None:
    with running() as url:
        found = asked(tmp_path, url, capsys)
    assert (found.get("error"), found["model"], bool(found["text"])) == (None, MODEL, True)
    assert 0 < found["ttft_ms"] / 1000 <= found["seconds"]
    assert found["tokens"] >= 1


def test_the_node_s_key_is_shown_to_the_gateway(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "key").write_text("k" * 32)
    with running(key="k" * 32) as url:
        assert asked(tmp_path, url, capsys)["error"]
        assert not asked(tmp_path, url, capsys, api_key_file=str(tmp_path / "key")).get("error")


def test_a_stream_that_breaks_is_no_answer(tmp_path: Path, capsys: Capture) -> None:
    with running(fast("cut-off")) as url:
        assert asked(tmp_path, url, capsys)["error"]


def test_a_node_that_serves_nothing_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert question.main([str(tmp_path / "none.json"), ""]) == 2
    assert capsys.readouterr().err.count("\n") == 1
