"""Where the latency client of a node runs: never where a replica does, if there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.placement import layout
from b200kit.stages import serving
from tests.unit.nodes import settled


@pytest.mark.parametrize(
    ("asked", "left", "given"),
    [(None, "0-1,56-57", "0-1,56-57"), ("2-3", "0-1", "2-3"), (None, "", None)],
)
def test_client_gets_the_cpus_that_no_replica_has(
    asked: str | None,
    left: str,
    given: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, _ = settled(tmp_path)
    node.spec = node.spec.replace(client_cpus=asked)
    monkeypatch.setattr(layout, "reserved", lambda state, replicas: left)
    assert serving.serving_document(node, node.layout())["client_cpus"] == given
