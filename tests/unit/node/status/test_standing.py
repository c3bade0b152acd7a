"""Where a node stands, of what already lies on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import boot_clock, managed_files
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import GatewayServer, HAProxyError
from b200kit.node.status import standing

SERVING = {"replicas": [{"index": 0, "uuids": ["a", "b"]}, {"index": 1, "uuids": ["c"]}]}
ROTATION = [GatewayServer("vllm0", "UP", 3), GatewayServer("vllm1", "DRAIN", 0)]
NOTES = dict.fromkeys(("watch", "watchdog", "proof", "quarantine", "watchdog_mark"))


def replicas(serving: Any, rotation: Any) -> Any:
    """The replicas of the document."""
    return standing.of(NOTES, serving, rotation)["replicas"]


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


@pytest.mark.parametrize(
    ("content", "watch", "proof"),
    [
        ({"boot_id": "here", "watch": {"a": 1}, "proof": {"b": 2}}, {"a": 1}, {"b": 2}),
        ({"boot_id": "before", "watch": {"a": 1}, "proof": {"b": 2}}, None, {"b": 2}),
        (None, None, None),
        ("{half", "unmeasured", "unmeasured"),
    ],
)  # fmt: skip
def test_parts_of_the_agents_file_are_given_as_they_lie_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    content: Any, watch: Any, proof: Any,
) -> None:  # fmt: skip
    def away() -> Any:
        raise HAProxyError("no socket")

    notes = managed_files.notes
    monkeypatch.setattr(haproxy, "servers", away)
    monkeypatch.setattr(managed_files, "notes", lambda: notes(tmp_path))
    monkeypatch.setattr(standing, "SERVING", tmp_path / "serving")
    monkeypatch.setattr(boot_clock, "now", lambda: boot_clock.Moment("here", 7.0))
    (tmp_path / "serving").write_text(json.dumps(SERVING))
    (tmp_path / "agent").mkdir()
    if content is not None:
        written = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "agent" / "agent.json").write_text(written)
    assert standing.main([]) == 0
    found = json.loads(capsys.readouterr().out)
    for part, expected in (("watch", watch), ("proof", proof)):
        if expected == "unmeasured":
            assert "unmeasured" in found[part]
        else:
            assert found[part] == expected
    assert "unmeasured" in found["replicas"][0]["takes_requests"]
    assert (found["boot_id"], found["quarantine"]) == ("here", None)
