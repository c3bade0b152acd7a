"""Where the latency client of a node runs: apart from replicas and gateway, if there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.node.placement import layout
from b200kit.stages import serving
from tests.unit.nodes import settled


@pytest.mark.parametrize(
    ("asked", "gateway", "left", "given"),
    [
        (None, None, "0-1,56-57", "0-1,56-57"),
        ("2-3", None, "0-1", "2-3"),
        (None, None, "", None),
        (None, "0-1", "0-1,56-57", "56-57"),
        (None, "0-1", "0-1", None),
    ],
)
def test_client_gets_the_cpus_that_nobody_has(
    asked: str | None,
    gateway: str | None,
    left: str,
    given: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, _ = settled(tmp_path)
    own = node.spec.gateway.replace(cpus=gateway)
    node.spec = node.spec.replace(client_cpus=asked, gateway=own)
    monkeypatch.setattr(layout, "reserved", lambda state, replicas: left)
    assert serving.serving_document(node, node.layout()).client_cpus == given
