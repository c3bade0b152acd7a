"""A file of group data that nothing reads is named where it is meant for the nodes of the run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.inventory.keys.problem import Problem
from b200kit.operations import group_data

LACKS = Problem("driver", "is required: the exact version")
OTHER = Problem("model", 'unknown "llama-9"')


def misnamed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, stems: str, *faults: Problem
) -> tuple[list[str], list[Problem]]:
    """Of an inventory prod.py with one node, files of these names in its group data."""
    (folder / "group_data").mkdir()
    for stem in stems.split():
        (folder / "group_data" / f"{stem}.py").touch()
    (folder / "prod.py").write_text("nodes = []\n# not prd\n")
    monkeypatch.setattr(sys, "argv", ["pyinfra", str(folder / "prod.py"), "deploy/b200.py"])
    host: Any = SimpleNamespace(name="n01", groups=["prod", "gpu_nodes"])
    lines, left = group_data.misnamed([host], [(host, fault) for fault in faults])
    return lines, [fault for _, fault in left]


@pytest.mark.parametrize(
    ("stems", "faults", "says"),
    [
        ("all prd", (), 'did you mean "prod"?'),
        ("all prod gpu-nodes", (OTHER,), 'did you mean "gpu_nodes"?'),
        ("all production", (LACKS, OTHER), "the groups are all, gpu_nodes, prod"),
    ],
)
def test_file_that_is_meant_for_a_group_is_named(
    stems: str,
    faults: tuple[Problem, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [line], left = misnamed(tmp_path, monkeypatch, stems, *faults)
    assert line.startswith(f"{tmp_path}/group_data/{stems.split()[-1]}.py: ")
    assert line.endswith(says)
    assert left == [fault for fault in faults if fault is OTHER]


@pytest.mark.parametrize("stems", ["all", "all prod prd", "all prd", "all staging"])
def test_file_of_another_inventory_or_of_no_group_of_this_one_is_no_matter(
    stems: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stems == "all prd":
        (tmp_path / "other.py").write_text("prd = ['n02']\n")
    faults = () if "staging" in stems else (LACKS,) * (stems == "all")
    assert misnamed(tmp_path, monkeypatch, stems, *faults) == ([], list(faults))
