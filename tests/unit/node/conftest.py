"""Fixtures for the node program: NVML as a scenario tells it, or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.hardware import shim_build
from tests.unit.lab.shim_kit import DRIVER, facts, write_conf

Nvml = Callable[..., None]


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML stand-in, compiled once."""
    folder = tmp_path_factory.mktemp("node-nvml")
    return shim_build.compile_shim(folder / shim_build.SONAME, DRIVER)


@pytest.fixture
def nvml(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    """Make this process's children see the NVML of a scenario, with `lines` added."""

    def use(scenario: str = "healthy", lines: str = "", kernel: str | None = DRIVER) -> None:
        conf = write_conf(tmp_path / "nvml.conf", facts(scenario), kernel, lines=lines)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in.parent))
        monkeypatch.setenv("B200_LAB_NVML_CONF", str(conf))

    return use


@pytest.fixture
def no_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process's children find a library that is none."""
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
