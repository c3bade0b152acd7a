"""Canary secrets: after a run at full verbosity they are nowhere but in root-only files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.driving import Outcome, deploy, on
from tests.lab.paths import lab_paths


@pytest.fixture(scope="module")
def run(boot: Callable[..., Any]) -> Outcome:
    """A first run that prints all that pyinfra can print."""
    boot("healthy")
    outcome = deploy("b200.py", "-vvv", "--debug", "--diff")
    assert outcome.code == 0, outcome.said[-4000:]
    return outcome


@pytest.fixture(scope="module", params=["token", "api_key"])
def canary(request: pytest.FixtureRequest) -> str:
    """The value of a secret of this lab."""
    secret: str = getattr(lab_paths(), request.param).read_text().strip()
    assert len(secret) > 20
    return secret


def test_not_in_anything_printed(run: Outcome, canary: str) -> None:
    assert canary not in run.said


def test_not_in_any_report_file(run: Outcome, canary: str) -> None:
    assert run.directory is not None
    files = [path for path in run.directory.rglob("*") if path.is_file()]
    assert files
    assert not [path.name for path in files if canary in path.read_text(errors="replace")]


def test_not_in_unit_properties_or_environment_of_units(run: Outcome, canary: str) -> None:
    shown = on("b200-1", "systemctl show '*' --all --no-pager; systemctl cat 'vllm@0.service'")
    assert "vllm@0.service" in shown
    assert canary not in shown


def test_not_in_any_argument_list(run: Outcome, canary: str) -> None:
    listed = on("b200-1", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "serve" in listed
    assert canary not in listed


def test_not_in_the_journal(run: Outcome, canary: str) -> None:
    assert canary not in on("b200-1", "journalctl --no-pager -o json")


def test_only_in_files_that_only_root_can_read(run: Outcome, canary: str) -> None:
    found = on(
        "b200-1",
        f"grep -rlsF -- '{canary}' /etc /var /opt/vllm/*/.complete /usr/local /run /root /srv /tmp "
        "--exclude-dir=b200-lab | xargs -r stat -c '%a %U %n'",
    ).splitlines()
    assert found
    assert all(line.startswith(("600 root ", "400 ")) for line in found), found


def test_directory_of_the_secrets_is_closed(run: Outcome) -> None:
    assert on("b200-1", "stat -c '%a %U' /etc/b200kit/secrets") == "700 root"
