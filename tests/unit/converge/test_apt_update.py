"""The list of a repository that cannot be had is never replaced by the one of last week."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from b200kit.converge import apt
from b200kit.node.state.drift import Package
from tests.unit.nodes import settled


def update_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The step of an installation that asks for new lists, as the node's shell gets it."""
    node, _ = settled(tmp_path)
    scripts: list[str] = []

    def keep(script: str, *_: Any) -> str:
        scripts.append(script)
        return "{}"

    monkeypatch.setattr(node.connected(), "run_logged", keep)
    apt.install(node, [Package("curl", "1")])
    [step] = [step for step in scripts[0].split(" && ") if " update" in step]
    return step


def test_repository_that_does_not_answer_ends_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By apt itself, whose own habit is a warning, exit status 0 and the lists it had."""
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    # Nothing listens on the discard port, and no retry makes it.
    (tmp_path / "sources.list").write_text("deb [trusted=yes] http://127.0.0.1:9/ ./\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "/dev/null";\n'
        f'Dir::State::lists "{lists}";\nDir::Cache "{tmp_path}";\n'
        'Acquire::Retries::Delay "false";\n'
    )
    done = subprocess.run(
        ["sh", "-c", update_step(tmp_path, monkeypatch)],
        env={**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0, done.stdout + done.stderr
    assert "127.0.0.1:9" in done.stderr
