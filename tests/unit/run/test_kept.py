"""What runs left on the controller, removed by age and size, and nothing else."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

from b200kit.inventory.keys.kept import Kept
from b200kit.run import kept
from tests.messages import assert_message

DAY_S = 86_400
NOW = datetime(2026, 11, 22, 12).timestamp()
FEW = Kept(days=30, gib=0.01, least=2)


def run(reports: Path, days: float, number: int = 1, size: int = 10) -> Path:
    """The folder of a run of some days ago."""
    began = datetime.fromtimestamp(NOW - days * DAY_S)
    folder = reports / f"{began:%Y%m%d-%H%M%S}-{number}"
    folder.mkdir(parents=True)
    (folder / "report.html").write_bytes(b"x" * size)
    return folder


def pruned(reports: Path, asked: Kept = FEW) -> set[str]:
    """What is left."""
    kept.remove(kept.spare(kept.runs(reports), asked, NOW), asked, "runs")
    return {path.name for path in reports.iterdir()}


def test_old_runs_go_and_the_newest_stay_however_old(tmp_path: Path) -> None:
    young, old = [run(tmp_path, days) for days in (1, 2, 29)], [run(tmp_path, d) for d in (31, 99)]
    assert pruned(tmp_path) == {folder.name for folder in young}
    assert not any(folder.exists() for folder in old)
    all_old = tmp_path / "other"
    three = [run(all_old, days) for days in (50, 60, 70)]
    assert pruned(all_old) == {folder.name for folder in three[:2]}


def test_oldest_go_until_the_rest_has_the_size(tmp_path: Path) -> None:
    folders = [run(tmp_path, days, size=4 << 20) for days in range(5)]
    assert pruned(tmp_path) == {folder.name for folder in folders[:2]}


def test_only_folders_of_runs_go_and_no_link_is_followed(tmp_path: Path) -> None:
    reports, other = tmp_path / "reports", tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    gone = run(reports, 90, 3)
    (gone / "link").symlink_to(other)
    for number in range(2):
        run(reports, 1, number)
    (reports / "20200101-000000-7").symlink_to(other)
    (reports / "20200101-000000-8").write_text("a file")
    (reports / "20200101-000000-my-own").mkdir()
    (reports / "latest").mkdir()
    (reports / "99999999-999999-1").mkdir()
    left = pruned(reports)
    assert gone.name not in left
    assert {"20200101-000000-7", "20200101-000000-8", "20200101-000000-my-own", "latest"} <= left
    assert (other / "precious").exists()


def test_folder_that_became_a_link_is_left_and_named(tmp_path: Path) -> None:
    reports, other = tmp_path / "reports", tmp_path / "other"
    (other / "precious").mkdir(parents=True)
    old = run(reports, 90)
    run(reports, 1), run(reports, 2)
    going = kept.spare(kept.runs(reports), FEW, NOW)
    old.rename(tmp_path / "away")
    old.symlink_to(other)
    said = kept.remove(going, FEW, "runs")
    assert said == f"{old} cannot be removed: Cannot call rmtree on a symbolic link"
    assert (other / "precious").exists()


def test_removal_is_one_line(tmp_path: Path) -> None:
    for days in (1, 2, 60, 61):
        run(tmp_path, days, size=2_000_000)
    assert_message(kept.remove(kept.spare(kept.runs(tmp_path), FEW, NOW), FEW, "runs"))
    assert kept.remove(kept.spare(kept.runs(tmp_path), FEW, NOW), FEW, "runs") == ""
    assert kept.runs(tmp_path / "none") == []


def test_what_nobody_may_remove_is_named_and_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (1, 2, 60):
        run(tmp_path, days)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    line = kept.remove(kept.spare(kept.runs(tmp_path), FEW, NOW), FEW, "runs")
    assert line.endswith("cannot be removed: Permission denied")
    assert len(os.listdir(tmp_path)) == 3


def test_widest_of_what_nodes_ask_for_counts() -> None:
    asked = [Kept(days=1, gib=5, least=1), Kept(days=9, gib=1, least=3)]
    assert kept.widest(asked) == Kept(days=9, gib=5, least=3)
    assert kept.widest([]) == Kept()
