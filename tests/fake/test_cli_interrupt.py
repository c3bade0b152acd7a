"""Ctrl-C, from the real CLI: exit code 1 as the summary says, and what may go on on each node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake.fleet import Fleet
from tests.messages import assert_message


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two bare nodes."""
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.add("n02")
    return fleet


@pytest.mark.parametrize(
    ("entry", "command"),
    [("check.py", "observe"), ("b200.py", "observe"), ("b200.py", "apt-get")],
)
def test_interrupted_run_exits_as_its_summary_says_and_names_what_goes_on(
    fleet: Fleet, entry: str, command: str
) -> None:
    for name in fleet.names:
        machine = fleet.machine(name)
        machine.hangs_at = command
        machine.save()
    run = fleet.interrupted(entry, fleet.folder / "n01" / "hanging")
    assert run.code == 1, run.stdout + run.stderr
    assert "exit 1" in run.stdout
    assert '"exit_code": 1' in run.report
    assert "no cause in the record" not in run.stdout
    assert_message(f"{run.outcomes['n01']}: {run.described('n01')}")
    # Whether the other came there, too, is chance.
    assert run.outcomes["n02"] in ("failed", "not reached")
    assert "interrupted" in run.described("n02")
