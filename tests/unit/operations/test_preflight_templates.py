"""A template that cannot be rendered is a problem of the inventory, before any connection."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.operations import named_files, preflight
from b200kit.run import places, render
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.nodes import connected, spec


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the templates, which is rendered from until the test ends."""
    copy = tmp_path / "templates"
    shutil.copytree(places.TEMPLATES, copy)
    monkeypatch.setattr(render, "TEMPLATES", copy)
    render._environment.cache_clear()
    yield copy
    render._environment.cache_clear()


def test_template_with_a_variable_nobody_sets_is_named_with_it(
    tmp_path: Path, templates: Path
) -> None:
    node = connected(Machine(tmp_path))
    assert list(preflight._broken_templates(node)) == []
    template = templates / "haproxy" / "haproxy.cfg.j2"
    template.write_text(template.read_text() + "# {{ site_name }}\n")
    [problem] = preflight._broken_templates(node)
    assert problem.key == "templates"
    assert "templates/haproxy/haproxy.cfg.j2" in problem.message
    assert "'site_name' is undefined" in problem.message


def test_lock_that_names_no_python_is_refused(tmp_path: Path) -> None:
    sound = spec(tmp_path)
    assert list(named_files.wrong(sound)) == []
    Path(sound.engine.requirements).write_text("vllm==0.32.0 --hash=sha256:00\n")
    [problem] = named_files.wrong(sound)
    assert problem.key == "engine.requirements"
    assert 'does not name the Python it is for; add a line such as "# python: 3.12"' in str(
        problem.message
    )


def test_flashinfer_that_nothing_compiles_or_nobody_installs_is_refused(tmp_path: Path) -> None:
    sound = spec(tmp_path)
    cuda = sound.replace(engine=sound.engine.replace(kind="cuda"))
    lock = f"# python: 3.12\nvllm=={cuda.engine.version} --hash=sha256:00\n"
    Path(cuda.engine.requirements).write_text(lock)
    assert list(named_files.wrong(cuda)) == []
    asks = cuda.replace(
        engine=cuda.engine.replace(
            flags=(("attention-backend", "FLASHINFER"), ("enable-flashinfer-autotune", False))
        ),
        replica_flags=(("0", (("kv-cache-dtype", "nvfp4"),)),),
        kv_cache_dtype="nvfp4",
    )
    keys = [problem.key for problem in named_files.wrong(asks)]
    assert keys == [
        "engine.flags.attention-backend",
        "replica_flags.0.kv-cache-dtype",
        "kv_cache_dtype",
    ]
    Path(cuda.engine.requirements).write_text(f"{lock}flashinfer-python==0.7.2\n")
    [problem] = named_files.wrong(cuda)
    assert (problem.key, "without its kernels" in problem.message) == ("engine.requirements", True)
    Path(asks.engine.requirements).write_text(
        f"{lock}flashinfer-jit-cache==1\nflashinfer-python==1\n"
    )
    assert list(named_files.wrong(asks)) == []


@in_subtests(
    ("driver", "runtime", "sound"),
    [
        ("580.126.20", "nvidia-cuda-runtime==13.0.96", True),
        ("595.45.04", "nvidia-cuda-runtime==13.0.96", True),
        ("575.57.08", "nvidia-cuda-runtime==13.0.96", False),
        ("570.211.01", "nvidia_cuda_runtime==13.2.75", False),
        ("570.211.01", "nvidia-cuda-runtime-cu12==12.8.90", True),
        ("570.211.01", "torch==2.14.0", True),
    ],
)
def test_lock_of_a_cuda_that_the_driver_does_not_run_is_refused(
    tmp_path: Path, driver: str, runtime: str, sound: bool
) -> None:
    known = spec(tmp_path)
    cuda = known.replace(engine=known.engine.replace(kind="cuda"), driver=driver)
    with Path(cuda.engine.requirements).open("a") as lock:
        lock.write(f"{runtime} --hash=sha256:00\n")
    problems = list(named_files.wrong(cuda))
    assert [problem.key for problem in problems] == ([] if sound else ["driver"])
    for problem in problems:
        assert_message(problem.message)
    cpu = cuda.replace(engine=known.engine.replace(kind="cpu"))
    assert list(named_files.wrong(cpu)) == []
