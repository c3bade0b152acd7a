"""Saved disks: found by what they were made from, and by nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.lab import snapshots
from tests.lab.paths import LabPaths
from tests.lab.supply.systems import choose

HEALTHY = {"b200-2": "healthy", "b200-1": "healthy"}
DAY = 24 * 3600


@pytest.fixture
def lab(tmp_path: Path) -> LabPaths:
    found = LabPaths(tmp_path / "lab", 3)
    choose(found)
    found.system.resolve().mkdir(parents=True)
    found.base_stamp.write_text("made")
    return found


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two folders of sources."""
    for name in ("deploy/a.py", "deploy/node/b.sh", "templates/c.j2"):
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(name)
    return tmp_path / "src"


def hashed(sources: Path) -> str:
    return snapshots.sources_hash(sources, ("deploy", "templates"))


def test_a_change_of_any_source_is_another_key(sources: Path) -> None:
    seen = {hashed(sources)}
    (sources / "deploy/node/b.sh").write_text("other")
    seen.add(hashed(sources))
    (sources / "templates/c.j2").rename(sources / "templates/d.j2")
    seen.add(hashed(sources))
    (sources / "deploy/a.py").chmod(0o755)
    seen.add(hashed(sources))
    (sources / "deploy/new.py").touch()
    seen.add(hashed(sources))
    assert len(seen) == 5


def test_what_python_compiles_and_what_lies_elsewhere_is_no_source(sources: Path) -> None:
    before = hashed(sources)
    (sources / "deploy/__pycache__").mkdir()
    (sources / "deploy/__pycache__/a.cpython-311.pyc").touch()
    (sources / "docs").mkdir()
    (sources / "docs/a.md").touch()
    assert hashed(sources) == before


def test_every_folder_that_decides_what_a_node_becomes_is_a_source() -> None:
    files = {
        path.relative_to(snapshots.ROOT)
        for path in snapshots._files(snapshots.ROOT, snapshots.SOURCES)
    }
    for needed in (
        "deploy/b200.py", "tests/lab/standin/engine.py", "tests/lab/inventory.py",
        "tests/scenarios/acs-on.yaml", "inventories/lab.py",
    ):  # fmt: skip
        assert Path(needed) in files


def test_label_and_base_are_part_of_the_key(lab: LabPaths) -> None:
    first = snapshots.layer(lab, "live", "b200-1", "healthy")
    assert snapshots.layer(lab, "live", "b200-1", "healthy") == first
    assert snapshots.layer(lab, "other", "b200-1", "healthy").parent != first.parent
    os.utime(lab.base_stamp, (1, 1))
    assert snapshots.layer(lab, "live", "b200-1", "healthy").parent != first.parent


def test_a_disk_is_of_one_host_and_one_scenario(lab: LabPaths) -> None:
    snapshots.layer(lab, "live", "b200-1", "healthy").mkdir(parents=True)
    assert snapshots.missing(lab, "live", HEALTHY) == ["b200-2"]
    assert snapshots.missing(lab, "live", {"b200-1": "seven-gpus"}) == ["b200-1"]
    assert list(snapshots.saved(lab, HEALTHY, "live")) == ["b200-1"]
    assert snapshots.saved(lab, HEALTHY, None) == {}


def test_disks_of_other_sources_go_when_nobody_used_them_for_a_day(lab: LabPaths) -> None:
    stale, used = lab.snapshots / "stale", lab.snapshots / "used"
    for folder in (stale, used):
        (folder / "b200-1@healthy").mkdir(parents=True)
        for path in (folder / "b200-1@healthy", folder):
            os.utime(path, (time.time() - 2 * DAY,) * 2)
    os.utime(used / "b200-1@healthy")
    snapshots._forget_unused(lab)
    assert (stale.exists(), used.exists()) == (False, True)
