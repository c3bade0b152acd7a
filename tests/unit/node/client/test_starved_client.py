"""A client whose CPU is taken away says "invalid" and states no latency; it is never just wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.node.client.scores import REPOSITORY
from tests.unit.node.client.server_thread import MODEL, running

pytestmark = pytest.mark.alone
HOG_S = 12
"""The longest that the hog lives, whatever becomes of the test."""


@pytest.fixture
def taken() -> Iterator[int]:
    """A CPU that something of higher priority keeps busy."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("not measured: with one CPU the server would be starved, too")
    command = [sys.executable, "-m", "tests.unit.node.client.hog", str(cpus[-1]), str(HOG_S)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True) as hog:
        assert hog.stdout is not None
        if hog.stdout.readline() != "on\n":
            pytest.skip("not measured: real-time priority is not permitted here")
        try:
            yield cpus[-1]
        finally:
            hog.kill()


def smoke(url: str, file: Path, *more: str) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what was printed and the document of `b200 smoke` in a process of its own."""
    command = [sys.executable, "-m", "b200kit.cli", "smoke", url, "--model", MODEL]
    done = subprocess.run(
        [*command, "--json", str(file), "--requests", "20", "--rate", "20", *more],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert file.exists(), done.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return done.returncode, done.stdout, document


def test_a_client_without_its_cpu_is_invalid_and_reports_no_latency(
    taken: int, tmp_path: Path
) -> None:
    with running() as url:
        status, message, found = smoke(url, tmp_path / "out.json", "--cpus", str(taken))
    assert (status, found["verdict"]) == (2, "invalid"), found["reasons"]
    assert found["reasons"][0].startswith("client starved: ")
    assert found["client"]["starved"] is True
    assert not any("objective" in reason for reason in found["reasons"])
    assert "INVALID  client starved" in message
    assert "P50 [" not in message
