"""Locks, hand-made wheels, and how a CPU build of torch differs from a CUDA one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.lab.paths import LabError
from tests.lab.supply.wheelfile import read_metadata, sha256_of, split_wheel_name, write_wheel
from tests.lab.supply.wheels import (
    LOCK,
    Pin,
    find_wheels,
    parse_lock,
    requirements_text,
    requires_cuda,
)
from tests.subtests import in_subtests


def test_the_repositorys_lock_pins_141_and_hashes_all_but_torch() -> None:
    text = LOCK.read_text(encoding="utf-8")
    pins = parse_lock(text)
    assert len(pins) == 141
    assert [pin.name for pin in pins if not pin.hashes] == ["torch"]
    assert "://" not in text


def test_a_lock_with_continued_lines_and_comments_is_read() -> None:
    text = "# why\na==1 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n\nb.c==2.0  # note\n"
    assert parse_lock(text) == [Pin("a", "1", ("sha256:11", "sha256:22")), Pin("b.c", "2.0")]


@pytest.mark.parametrize("line", ["a>=1", "https://example.invalid/a.whl", "-r other.txt"])
def test_a_lock_line_that_pins_nothing_is_refused(line: str) -> None:
    with pytest.raises(LabError, match="is not NAME==VERSION"):
        parse_lock(line)


def test_a_wheel_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    def made() -> str:
        wheel = write_wheel(
            tmp_path, "my-tool", "1.0", "A tool.", {"my_tool/cli.py": b"x"}, {"t": "my_tool.cli:m"}
        )
        return sha256_of(wheel)

    assert made() == made()


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


def test_requirements_pin_each_wheel_by_its_own_hash(tmp_path: Path) -> None:
    wheels = [write_wheel(tmp_path, name, "1.0", "x") for name in ("zeta", "Alpha_B")]
    head, first, second = requirements_text(wheels).splitlines()
    assert head == "# python: 3.11"
    assert first == f"alpha-b==1.0 --hash=sha256:{sha256_of(wheels[1])}"
    assert second.startswith("zeta==1.0 --hash=sha256:")


def test_a_local_version_stands_for_the_version_that_is_pinned(tmp_path: Path) -> None:
    torch = write_wheel(tmp_path, "torch", "2.13.0+cpu", "x")
    write_wheel(tmp_path, "other", "2", "x")
    pins = [Pin("torch", "2.13.0"), Pin("other", "1"), Pin("Missing.One", "1")]
    assert list(find_wheels(pins, tmp_path).values()) == [torch, None, None]


def test_a_wheels_file_name_gives_name_and_version() -> None:
    name = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert split_wheel_name(name) == ("torch", "2.13.0+cpu")


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
