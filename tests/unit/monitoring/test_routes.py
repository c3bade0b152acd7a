"""Whom an alert reaches, by Alertmanager's own tool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from b200kit.monitoring import files
from tests.lab.supply.programs import amtool
from tests.subtests import in_subtests


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our configuration."""
    path = tmp_path_factory.mktemp("routes") / "alertmanager.yml"
    path.write_text(files.files([])["alertmanager.yml"])
    return path


@pytest.mark.process
@in_subtests(
    "severity, receiver",
    [("page", "b200-page"), ("ticket", "b200-ticket"), ("planned", "b200-nobody")],
)
def test_a_severity_has_its_receiver(config: Path, severity: str, receiver: str) -> None:
    found = amtool()
    words = ["config", "routes", "test", f"--config.file={config}", f"severity={severity}"]
    done = subprocess.run(
        [found.path, *words],
        env=dict(found.environment), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == receiver
