"""Locks, hand-made wheels, and how a CPU build of torch differs from a CUDA one."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.lab.supply.wheelfile import read_metadata, write_wheel
from tests.lab.supply.wheels import (
    LOCK,
    parse_lock,
    requires_cuda,
)
from tests.subtests import in_subtests


def test_the_repositorys_lock_pins_141_and_hashes_all_but_torch() -> None:
    text = LOCK.read_text(encoding="utf-8")
    pins = parse_lock(text)
    assert len(pins) == 141
    assert [pin.name for pin in pins if not pin.hashes] == ["torch"]
    assert "://" not in text


def test_a_wheel_has_metadata_scripts_and_a_complete_record(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path, "my-tool", "1.0+cpu", "A tool.", {"my_tool/cli.py": b"x"}, {"t": "my_tool.cli:m"}
    )
    assert wheel.name == "my_tool-1.0+cpu-py3-none-any.whl"
    assert read_metadata(wheel)["Version"] == "1.0+cpu"
    with zipfile.ZipFile(wheel) as archive:
        record = archive.read("my_tool-1.0+cpu.dist-info/RECORD").decode()
        assert [line.split(",")[0] for line in record.splitlines()] == [
            *sorted(name for name in archive.namelist() if not name.endswith("RECORD")),
            "my_tool-1.0+cpu.dist-info/RECORD",
        ]
        scripts = archive.read("my_tool-1.0+cpu.dist-info/entry_points.txt").decode()
    assert scripts == "[console_scripts]\nt = my_tool.cli:m\n"


@in_subtests(
    ("requirements", "cuda"),
    [
        (["filelock", "sympy>=1.13.3", 'optree>=0.13.0; extra == "optree"'], False),
        (["filelock", "nvidia-cudnn-cu13==9.1; platform_system == 'Linux'"], True),
        (["cuda-bindings<14,>=13.0.3"], True),
        (["triton==3.7.0"], True),
        ([], False),
    ],
)
def test_a_cuda_build_of_torch_shows_in_its_requirements(
    requirements: list[str], cuda: bool
) -> None:
    assert requires_cuda(requirements) is cuda
