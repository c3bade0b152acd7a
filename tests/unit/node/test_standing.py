"""Where a node stands, of what already lies on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node import standing
from b200kit.node.lib import managed_files
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import GatewayServer, HAProxyError

SERVING = {"replicas": [{"index": 0, "uuids": ["a", "b"]}, {"index": 1, "uuids": ["c"]}]}
ROTATION = [GatewayServer("vllm0", "UP", 3), GatewayServer("vllm1", "DRAIN", 0)]


def replicas(serving: Any, rotation: Any) -> Any:
    """The replicas of the document."""
    return standing.of({}, serving, rotation, {})["replicas"]


def test_a_replica_serves_where_the_gateway_sends_it_requests() -> None:
    found = replicas(SERVING, ROTATION)
    assert [(r["gpus"], r["takes_requests"], r["requests"]) for r in found] == [
        (2, True, 3), (1, False, 0),
    ]  # fmt: skip
    assert not replicas(SERVING, ROTATION[:1])[1]["takes_requests"]


def test_what_was_not_read_is_unmeasured_and_nothing_deployed_is_null() -> None:
    assert "unmeasured" in replicas(SERVING, {"unmeasured": "x"})[0]["takes_requests"]
    assert "unmeasured" in replicas({"unmeasured": "x"}, ROTATION)
    assert "unmeasured" in replicas({"replicas": 4}, ROTATION)
    assert "unmeasured" in replicas([], ROTATION)
    assert replicas(None, ROTATION) is None


def test_documents_are_given_as_they_lie_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def away() -> Any:
        raise HAProxyError("no socket")

    monkeypatch.setattr(haproxy, "servers", away)
    monkeypatch.setattr(standing, "STATE_DIRECTORY", tmp_path)
    files = {name: tmp_path / name for name in standing.DOCUMENTS}
    monkeypatch.setattr(standing, "DOCUMENTS", files)
    monkeypatch.setattr(standing, "SERVING", tmp_path / "serving")
    files["proof"].write_text('{"sequence": 41}')
    files["watch"].write_text("{half")
    (tmp_path / "serving").write_text(json.dumps(SERVING))
    (tmp_path / "watchdog").mkdir()
    (tmp_path / "watchdog/vllm0.json").write_text('{"out": true}')
    assert standing.main([]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proof"] == {"sequence": 41}
    assert found["watchdog"] == {"0": {"out": True}}
    assert found["quarantine"] is None
    assert "unmeasured" in found["watch"]
    assert found["replicas"][0]["takes_requests"] == {"unmeasured": "no socket"}


def test_it_reads_what_others_write() -> None:
    assert standing.DOCUMENTS["watch"] == managed_files.LOOK
