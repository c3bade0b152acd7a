"""Runs that end early, by Ctrl-C or a full disk: their message, and what the next run completes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake.fleet import Fleet
from tests.messages import assert_message

# As tests/unit/test_full_disk.py has it from a real full disk.
FULL = (
    "b200kit: /etc/apt/preferences.d/b200kit.pref: No space left on device, "
    "8192 bytes to write and 0 free"
)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Two bare nodes."""
    fleet = Fleet(tmp_path / "site")
    fleet.add("n01")
    fleet.add("n02")
    return fleet


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        ("check.py", "observe"),
        pytest.param("b200.py", "observe", marks=pytest.mark.process),
        ("b200.py", "packages install"),
    ],
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


def test_run_that_is_interrupted_while_its_inventory_is_read_says_so(fleet: Fleet) -> None:
    begun = fleet.folder / "reading"
    fleet.preamble = f"""
from b200kit.operations import preflight
preflight.attach()
import pathlib, time
pathlib.Path({str(begun)!r}).touch()
time.sleep(600)
"""
    run = fleet.interrupted("check.py", begun)
    assert (run.code, run.hosts) == (1, {}), run.stdout + run.stderr
    assert_message(run.stderr)


def test_full_disk_ends_its_node_in_one_line_and_the_next_run_goes_on(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "site")
    machine = fleet.add("n01")
    machine.answers = {"node.pyz put": (False, FULL)}
    machine.save()
    run = fleet.run("b200.py")
    assert (run.code, run.outcomes) == (1, {"n01": "failed"})
    assert_message(next(line for line in run.stderr.splitlines() if "FAILED" in line))
    machine = fleet.machine("n01")
    assert not any(machine.is_active(unit) for unit in machine.units)
    machine.answers = {}
    machine.save()
    assert fleet.run("b200.py").outcomes == {"n01": "live"}
