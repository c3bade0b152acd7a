"""What the adapters of schedulers are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.run.node import Node
from tests.unit.nodes import spec
from tests.unit.reprovision.traffic.programs import Programs


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Found before the machine's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("B200_WHY", raising=False)
    return Programs(folder)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The node they are about."""
    return Node("n7", spec(tmp_path, traffic_command=["site-lb", "--cell", "a"]))
