"""What the commands of contrib/ are tried on: each runs as the process that a site starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.programs import Programs

CONTRIB = Path(__file__).resolve().parents[3] / "contrib"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Found before the machine's own."""
    return Programs.on_path(tmp_path / "bin", monkeypatch)
