"""The key of compile caches changes with all that compiled code depends on, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Replica
from b200kit.node.serving import compile_cache_key
from b200kit.serving.replica import compile_facts as facts
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

REPLICA = Replica(0, (0, 1), ("GPU-a", "GPU-b"), (0,), "0-13", 8001, tp=2)


def key(engine: str = "abc", flags: Any = None, replica: Replica = REPLICA, **changes: Any) -> str:
    """The key of a replica of a node with these changes."""
    spec = parse(data(**changes), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    return compile_cache_key.key(facts(spec, engine, flags or {}, replica))


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
    text = compile_cache_key.environment("/var/cache/vllm/0/key")
    paths = {name: value for name, value in text.items() if name != "CUDA_CACHE_MAXSIZE"}
    assert all(value.startswith("/var/cache/vllm/0/key/") for value in paths.values())
    assert len(set(paths.values())) == len(paths)
    assert {"VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "HOME"} <= set(paths)
