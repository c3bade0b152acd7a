"""What an engine compiles with at run time: found on its path, or said to be missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.serving import compile_tools, engine_install
from tests.messages import assert_message
from tests.unit.nodes import bare
from tests.unit.run.test_templates import START, directives, engine, files
from tests.unit.serving.test_quadlet import CONTAINER, asked
from tests.unit.specs import CATALOGUE, data

WITHOUT = b"vllm==0.33.0 --hash=sha256:00\n"
LOCK = b"flashinfer_python==0.7.1 --hash=sha256:00\n" + WITHOUT
PREBUILT = LOCK + b"flashinfer_jit_cache==0.7.1+cu130 --hash=sha256:00\n"
OFF = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}


def spec(kind: str = "cuda", **changes: Any) -> NodeSpec:
    """A sound spec of an engine that computes on *kind*."""
    base = data(**changes)
    parsed = parse(base | {"engine": base["engine"] | {"kind": kind}}, CATALOGUE)
    assert isinstance(parsed, NodeSpec), parsed
    return parsed


def engine_with(**changes: Any) -> NodeSpec:
    """A sound spec of an engine on GPUs with other keys of its own."""
    parsed = parse(data() | {"engine": data()["engine"] | {"kind": "cuda"} | changes}, CATALOGUE)
    assert isinstance(parsed, NodeSpec), parsed
    return parsed


def variables(lock: bytes, kind: str = "cuda", **changes: Any) -> dict[str, str]:
    """What is in the environment besides PATH."""
    given = compile_tools.environment(spec(kind, **changes), "/opt/vllm/x", lock)
    assert given.pop("PATH").startswith("/opt/vllm/x/bin:/usr/local/sbin:")
    return given


def test_sampler_of_a_package_that_is_not_there_is_off() -> None:
    assert variables(WITHOUT) == OFF
    assert variables(PREBUILT) == variables(LOCK) == variables(WITHOUT, "cpu") == {}


def test_flashinfer_that_nothing_compiles_is_refused() -> None:
    message = compile_tools.uncompilable(spec(), LOCK)
    assert_message(message)
    own = engine_with(environment={"CUDA_HOME": "/opt/cuda"})
    sound = [(spec(), WITHOUT), (spec(), PREBUILT), (spec("cpu"), LOCK), (own, LOCK)]
    sound.append((spec(cuda_toolkit="13-0"), LOCK))
    assert [compile_tools.uncompilable(*one) for one in sound] == [""] * 5


def test_toolkit_of_the_inventory_is_where_kernels_are_compiled() -> None:
    assert variables(LOCK, cuda_toolkit="12-8") == {"CUDA_HOME": "/usr/local/cuda-12.8"}


def test_compiler_among_the_wheels_is_named_if_it_fits_their_headers() -> None:
    lock = (
        b"# python: 3.12\nnvidia-cuda-nvcc==13.0.88 \\\nnvidia-cuda-runtime==13.0.96 \\\n" + WITHOUT
    )
    home = {"CUDA_HOME": "/opt/vllm/x/lib/python3.12/site-packages/nvidia/cu13"}
    assert variables(lock) == OFF | home
    newer = lock.replace(b"nvcc==13.0.88", b"nvcc==13.5.37")
    without = lock.replace(b"# python: 3.12\n", b"")
    assert variables(newer) == variables(without) == OFF
    assert variables(lock, "cpu") == {}
    assert variables(lock, cuda_toolkit="12-8")["CUDA_HOME"] == "/usr/local/cuda-12.8"


def test_vllm_reads_the_variable() -> None:
    for version in load.load().engines["vllm"].versions.values():
        assert [version.wrong_variable(name, ("VLLM_",)) for name in OFF] == [""]


def test_engine_finds_its_own_programs_and_the_inventory_s_variable_wins(tmp_path: Path) -> None:
    mine = engine(tmp_path, kind="cuda", environment={"VLLM_USE_FLASHINFER_SAMPLER": "1"})
    given = directives(files(tmp_path, engine=mine)[START])["Environment"]
    [path] = [line.strip('"') for line in given if line.startswith('"PATH=')]
    venv = directives(files(tmp_path, engine=mine)[START])["ExecStart"][0].split()[1]
    assert path.startswith(f"PATH={venv.rpartition('/')[0]}:")
    assert '"VLLM_USE_FLASHINFER_SAMPLER=1"' in given


def test_image_keeps_its_own_path(tmp_path: Path) -> None:
    given = directives(files(tmp_path, **asked())[CONTAINER])["Environment"]
    assert not [line for line in given if re.match('"(PATH|VLLM_USE_FLASHINFER)', line)]


@pytest.mark.parametrize(
    ("kind", "names"),
    [("cuda", ["g++", "python3-dev"]), ("cpu", ["g++", "python3-dev"]), ("stand-in", [])],
)
def test_what_compiles_gets_a_compiler_and_python_s_headers(kind: str, names: list[str]) -> None:
    assert [package.name for package in compile_tools.packages(spec(kind))] == names


def test_run_says_what_the_engine_does_without(tmp_path: Path) -> None:
    node, _ = bare(tmp_path, engine=engine(tmp_path, kind="cuda"))
    message = engine_install.install(node)
    assert message
    assert_message(message)


def test_wheels_are_unpacked_beside_the_engine_and_not_in_tmp(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, engine=engine(tmp_path, kind="cuda"))
    engine_install.install(node)
    [script] = [command for command in machine.log if "-m pip install " in command]
    home = engine_install.engine_dir(node)
    assert f"mkdir {home}/wheels && TMPDIR={home}/wheels {home}/bin/python " in script
    assert f"&& rm -r {home}/wheels " in script
