"""A run in a forked process is what the same command line is as a program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fake.fleet import Fleet, reported, taken_away
from tests.fake.forked import ROOT
from tests.messages import TIME
from tests.unit import states


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A sound node and one that is refused."""
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.add("n02", states.recorded("gpu2-no-nvlink"))
    return fleet


def plain(text: str, folder: Path) -> list[str]:
    """What is printed, without times and the names of this run; nodes go side by side."""
    text = text.replace(str(folder), "SITE").replace(os.path.relpath(folder, ROOT), "SITE")
    text = TIME.sub("TIME", text)
    text = re.sub(r"\d{8}-\d{6}-\d+|(\d+ m )?[\d.]+ m?s\b", "", text)
    # A stage that took no time to speak of has none beside it.
    return sorted(" ".join(line.split()) for line in text.splitlines())


@pytest.mark.process
def test_run_ends_and_prints_as_a_program_does(fleet: Fleet, tmp_path: Path) -> None:
    other = fleet.copy(tmp_path / "other", *fleet.names)
    words, options = other.command("b200.py")
    program = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    folder = reported(program.stdout)
    assert folder
    hosts, _ = taken_away(folder)

    forked = fleet.run("b200.py")
    assert forked.code == program.returncode == 1
    assert forked.outcomes == {name: host["outcome"] for name, host in hosts.items()}
    for mine, its in ((forked.stdout, program.stdout), (forked.stderr, program.stderr)):
        assert plain(mine, fleet.folder) == plain(its, other.folder)
    for name in fleet.names:
        assert fleet.machine(name).files.keys() == other.machine(name).files.keys()


def test_run_that_is_killed_says_so(fleet: Fleet) -> None:
    machine = fleet.machine("n01")
    machine.hangs_at = "observe"
    machine.save()
    run = fleet.begin("check.py")
    assert run.poll() is None
    run.kill()
    run.communicate()
    assert run.wait() == -signal.SIGKILL
