"""A node with a full disk: host, path and bytes are said, nothing serves, the next run goes on."""

from __future__ import annotations

from pathlib import Path

from tests.fake.fleet import Fleet
from tests.messages import assert_message

# As tests/unit/test_full_disk.py has it from a real full disk.
FULL = (
    "b200kit: /etc/apt/preferences.d/b200kit.pref: No space left on device, "
    "8192 bytes to write and 0 free"
)


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
