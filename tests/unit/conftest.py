"""What all unit tests share: each has a store of its own, which is made when something is kept."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from b200kit.store import database

ON_THE_DISK = database.SYNCHRONOUS
# Tests kill processes and cut no power: nothing of theirs waits for the disk.
database.SYNCHRONOUS = "OFF"
_NUMBERS = count()


@pytest.fixture(autouse=True)
def site_store(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of this test's site."""
    path = tmp_path_factory.getbasetemp() / "stores" / str(next(_NUMBERS)) / database.NAME
    monkeypatch.setenv(database.VARIABLE, str(path))
    return path
