"""What the transactions of a fleet say of its nodes, for a look at it."""

from __future__ import annotations

from pathlib import Path

from b200kit.reprovision.ledger import Ledger
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.planned_change import PlannedChange
from b200kit.rollout import underway
from tests.messages import TIME, assert_message

CHANGE = PlannedChange("driver 580.142.07", "digest", wave=2, waves=7)


def begun(folder: Path, node: str, change: PlannedChange | None = None) -> Ledger:
    """A node that somebody has taken out, and works on."""
    lines = Ledger(folder, node, who="ops@b1", run="r1")
    lines.claim()
    lines.begin([], "change" if change else "nvlink.links", "", change)
    return lines


def test_a_node_that_is_changed_by_a_run_that_lives_is_planned_work(tmp_path: Path) -> None:
    lines = begun(tmp_path, "n1", CHANGE)
    planned, rollouts = underway.of(tmp_path, ["n1", "n2"])
    assert [(name, one.change, one.damaged) for name, one in planned.items()] == [
        ("n1", True, False)
    ]
    assert_message(planned["n1"].text, *rollouts, TIME=TIME)
    lines.release()
    assert not underway.of(tmp_path, ["n1"])[0]["n1"].change


def test_a_repair_is_said_and_excuses_no_fault(tmp_path: Path) -> None:
    begun(tmp_path, "n1")
    planned, rollouts = underway.of(tmp_path, ["n1"])
    assert not planned["n1"].change
    assert rollouts == []


def test_a_damaged_file_costs_its_own_node(tmp_path: Path) -> None:
    begun(tmp_path, "n1", CHANGE).release()
    (tmp_path / "n2.jsonl").write_text("{half\n{}\n")
    planned, _ = underway.of(tmp_path, ["n1", "n2"])
    assert [name for name, one in planned.items() if one.damaged] == ["n2"]


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    assert underway.of(tmp_path, ["n1"])[0] == {}
    lines = begun(tmp_path, "n1")
    lines.release()
    lines.path.unlink()
    assert underway.of(tmp_path, ["n1"])[0]["n1"].damaged


def test_a_file_that_grew_is_read_again(tmp_path: Path) -> None:
    lines = begun(tmp_path, "n1", CHANGE)
    before = underway.of(tmp_path, ["n1"])[0]
    lines.append(IntentLine(step="quarantine", id="x", why="x"))
    assert underway.of(tmp_path, ["n1"])[0] != before
