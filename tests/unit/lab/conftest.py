"""Fixtures of the lab's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.hardware import shim_build
from tests.lab.paths import ID_VARIABLE
from tests.unit.lab.shim_kit import DRIVER


@pytest.fixture(autouse=True)
def lab_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of the whole suite has a lab of its own; these tests ask about lab 0 of a home."""
    for name in (ID_VARIABLE, "B200_LAB"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML stand-in, compiled once, under the name that nvidia-ml-py loads."""
    folder = tmp_path_factory.mktemp("nvml")
    return shim_build.compile_shim(folder / shim_build.SONAME, DRIVER)
