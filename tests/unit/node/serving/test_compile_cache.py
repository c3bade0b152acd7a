"""Compile caches: one directory a key, and few keys kept."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Replica
from b200kit.node.serving import compile_cache
from b200kit.node.serving.compile_cache import RECORD
from b200kit.serving.replica import compile_facts as facts
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

KEY = "0123456789abcdef"


def prepare(root: Path, key: str = KEY) -> None:
    """What the hook before a start does."""
    assert compile_cache.main(["--root", str(root), "--key", key]) == 0


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A replica's directory in which something was compiled."""
    root = tmp_path / "0"
    root.mkdir()
    prepare(root)
    (root / KEY / "triton").mkdir()
    (root / KEY / "triton" / "kernel.so").write_bytes(b"\x7fELF")
    return root


def test_each_key_has_its_directory(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    prepare(tmp_path / "0")
    assert (tmp_path / "0" / KEY).stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_prepared_keeps_no_replica_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0").write_text("no directory")
    prepare(tmp_path / "0")
    assert "caches not prepared: " in capsys.readouterr().err


def test_the_two_keys_used_last_stay_and_older_ones_go(tmp_path: Path) -> None:
    root = tmp_path / "0"
    root.mkdir()
    for age, key in enumerate(["a" * 16, "b" * 16, "c" * 16]):
        prepare(root, key)
        os.utime(root / key / RECORD, (1000 + age, 1000 + age))
    assert {path.name for path in root.iterdir()} == {"b" * 16, "c" * 16}
    prepare(root, "b" * 16)
    prepare(root, "d" * 16)
    assert {path.name for path in root.iterdir()} == {"b" * 16, "d" * 16}


def test_caches_outlast_a_restart(warm: Path) -> None:
    prepare(warm)
    assert (warm / KEY / "triton" / "kernel.so").read_bytes() == b"\x7fELF"


def test_link_that_an_engine_laid_leads_the_hook_nowhere(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "0", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / KEY).symlink_to(elsewhere)
    prepare(root)
    assert list(elsewhere.iterdir()) == []
    (root / KEY / RECORD).unlink()
    (root / KEY / RECORD).symlink_to(elsewhere / "made")
    prepare(root)
    assert list(elsewhere.iterdir()) == []
    assert (root / KEY / RECORD).is_file()


def test_surplus_counts_the_current_key_among_those_kept() -> None:
    used = {"a": 1.0, "b": 2.0, "c": 3.0, "now": 0.0}
    assert compile_cache.surplus(used, "now", 2) == ["a", "b"]
    assert compile_cache.surplus(used, "now", 1) == ["a", "b", "c"]
    assert compile_cache.surplus({}, "now", 2) == []


REPLICA = Replica(0, (0, 1), ("GPU-a", "GPU-b"), (0,), "0-13", 8001, tp=2)


def key(engine: str = "abc", flags: Any = None, replica: Replica = REPLICA, **changes: Any) -> str:
    """The key of a replica of a node with these changes."""
    spec = parse(data(**changes), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    return compile_cache.key(facts(spec, engine, flags or {}, replica))


def test_key_is_a_directory_name_and_the_same_every_time() -> None:
    assert key() == key()
    assert len(key()) == 16
    assert set(key()) <= set("0123456789abcdef")


@in_subtests(
    "changes",
    [
        {"max_num_seqs": 16},
        {"max_num_batched_tokens": 4096},
        {"max_model_len": 8192},
        {"model_revision": "f" * 64},
        {"driver": "590.10.01"},
        {"engine": "def"},
        {"flags": {"performance-mode": "interactivity"}},
        {"replica": replace(REPLICA, tp=1)},
        {"replica": replace(REPLICA, pp=2)},
        {"replica": replace(REPLICA, ep=True)},
        {"replica": replace(REPLICA, max_num_seqs=99)},
    ],
    ids=str,
)
def test_what_compiled_code_depends_on_is_another_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


@pytest.mark.parametrize(
    "changes",
    [
        {"replica": replace(REPLICA, replica=1, port=8002, cpus="14-27", numa_nodes=(1,))},
        {"replica": replace(REPLICA, gpus=(2, 3), uuids=("GPU-c", "GPU-d"))},
        {"driver": "580.159.03"},
        {"gateway_port": 9000},
    ],
    ids=str,
)
def test_what_it_does_not_depend_on_is_the_same_key(changes: dict[str, Any]) -> None:
    assert key(**changes) == key()


def test_every_cache_lies_below_the_directory() -> None:
    text = compile_cache.environment("/var/cache/vllm/0/key")
    paths = {name: value for name, value in text.items() if name != "CUDA_CACHE_MAXSIZE"}
    assert all(value.startswith("/var/cache/vllm/0/key/") for value in paths.values())
    assert len(set(paths.values())) == len(paths)
    assert {"VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "HOME"} <= set(paths)
