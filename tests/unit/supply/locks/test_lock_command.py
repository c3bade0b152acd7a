"""`b200 lock`, by the real uv over an index in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit import cli
from b200kit.supply.locks import make as rules
from b200kit.supply.locks.lock_file import pins, said
from b200kit.supply.locks.recipe import recipes
from tests.messages import assert_message
from tests.unit.supply.locks import local_index

RECIPE = recipes()["vllm", "cuda"]
PY311 = RECIPE.file_name("3.11")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that uv takes packages from, and from nowhere else."""
    folder = tmp_path / "wheels"
    local_index.publish(folder, local_index.ENGINE)
    local_index.use(folder, monkeypatch)
    return folder


def lock(
    folder: Path, *arguments: str, version: str = "0.33.0", python: str = "3.11", code: int = 0
) -> None:
    """Run the command for one Python."""
    given = ["lock", "vllm", version, "--to", str(folder), "--python", python, *arguments]
    assert cli.main(given) == code


def locked(folder: Path) -> dict[str, str]:
    """Name to version of the lock for Python 3.11, which must fulfil every rule."""
    text = (folder / PY311).read_text(encoding="utf-8")
    assert rules.faults(text, RECIPE, PY311) == []
    return {name: pin.version for name, pin in pins(text).items()}


def test_parts_of_cuda_are_of_the_release_that_torch_is_built_for(
    index: Path, tmp_path: Path
) -> None:
    lock(tmp_path)
    found = locked(tmp_path)
    assert (found["nvidia-cuda-nvcc"], found["cuda-toolkit"]) == ("13.0.88", "13.0.3")


def test_flashinfer_without_kernels_is_left_out_and_said_to_be(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock(tmp_path)
    assert "flashinfer-python" not in locked(tmp_path)
    text = (tmp_path / PY311).read_text(encoding="utf-8")
    assert said(text, "left out") == ["flashinfer-python"]
    assert said(text, "override") == ["certifi>=2026.10.18"]
    assert_message(capsys.readouterr().out)


def test_flashinfer_comes_with_kernels_of_its_version(index: Path, tmp_path: Path) -> None:
    local_index.publish(index, local_index.KERNELS)
    lock(tmp_path)
    assert {"flashinfer-python", *RECIPE.kernels} <= set(locked(tmp_path))


def test_kernels_of_another_version_do_not_count(index: Path, tmp_path: Path) -> None:
    local_index.publish(index, {"flashinfer-cubin 0.7.1": (), "flashinfer-jit-cache 0.7.2": ()})
    lock(tmp_path)
    assert {"flashinfer-python", *RECIPE.kernels} & set(locked(tmp_path)) == set()


def test_flashinfer_is_kept_for_those_who_compile_it(index: Path, tmp_path: Path) -> None:
    lock(tmp_path, "--compiled")
    found = locked(tmp_path)
    assert (found["flashinfer-python"], found["cuda-python"]) == ("0.7.2", "13.4.4")


def test_next_version_prints_what_changed_and_a_second_run_changes_nothing(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock(tmp_path)
    capsys.readouterr()
    lock(tmp_path, version="0.34.0")
    first = (tmp_path / PY311).read_bytes()
    lock(tmp_path, version="0.34.0")
    assert (tmp_path / PY311).read_bytes() == first
    assert_message(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("version", "python", "more"),
    [
        ("0.35.0", "3.11", {}),
        ("0.34.0", "3.10", {}),
        ("0.34.0", "3.11", {"humming 1.0": ("nvidia-cuda-nvcc>=13.4",)}),
        (
            "0.34.0",
            "3.11",
            {"vllm 0.34.0": ("nvidia-cuda-runtime",), "nvidia-cuda-runtime 12.9": ()},
        ),
    ],
    ids=["no such version", "Python too old", "conflict", "two releases of CUDA"],
)
def test_what_cannot_be_locked_is_one_line_and_writes_nothing(
    index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    version: str,
    python: str,
    more: dict[str, tuple[str, ...]],
) -> None:
    local_index.publish(index, more)
    lock(tmp_path, version=version, python=python, code=1)
    assert not list(tmp_path.glob("*.txt"))
    assert_message(capsys.readouterr().err)


def test_override_of_the_command_line_is_kept_in_the_lock(index: Path, tmp_path: Path) -> None:
    local_index.publish(index, {"humming 1.0": ("nvidia-cuda-nvcc>=13.4",)})
    lock(tmp_path, "--override", "nvidia-cuda-nvcc<13.1", version="0.34.0")
    text = (tmp_path / PY311).read_text(encoding="utf-8")
    assert said(text, "override") == ["nvidia-cuda-nvcc<13.1"]


def test_engine_without_a_recipe_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["lock", "sglang", "0.5.23", "--to", str(tmp_path)]) == 2
    assert_message(capsys.readouterr().err)
