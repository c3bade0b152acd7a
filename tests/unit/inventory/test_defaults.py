"""An inventory's goal becomes figures before any connection, and what cannot work is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.catalog.types import Catalogue
from b200kit.converge.stage import nominal_layout
from b200kit.inventory import shape
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.run.node import Node
from b200kit.sizing.dimensions import ModelError
from tests.lab.supply import models
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.specs import CATALOGUE, data

ENGINE = {
    "kind": "cuda",
    "version": "0.33.0",
    "requirements": "requirements/engine.txt",
    "wheelhouse": "https://mirror.example.internal/wheels/",
}
WAIVERS = [
    {"check": check, "owner": "ops", "reason": "board swap", "until": "2026-12-01"}
    for check in ("identity.nvml-count", "identity.pci-count")
]


def resolved(known: Catalogue | None = None, **changes: Any) -> NodeSpec | dict[str, str]:
    """The spec of a node with GPUs, or key to message of what is wrong with it."""
    message = data(**({"engine": ENGINE, "model": "llama-3.3-70b-fp8"} | changes))
    found = parse({k: v for k, v in message.items() if v is not None}, known or load.load())
    return found if isinstance(found, NodeSpec) else {p.key: p.message for p in found}


def goal(name: str, **changes: Any) -> NodeSpec:
    """The spec of a node that states a goal and nothing else."""
    spec = resolved(**({"goal": name, "replicas": None, "tensor_parallel": None} | changes))
    assert isinstance(spec, NodeSpec), spec
    return spec


def problems(**changes: Any) -> dict[str, str]:
    """What is wrong."""
    found = resolved(**changes)
    assert isinstance(found, dict)
    return found


def test_goal_becomes_figures() -> None:
    spec = goal("balanced")
    assert (spec.replicas, spec.tensor_parallel, spec.data_parallel) == (4, 2, 1)
    assert (spec.max_num_seqs, spec.max_num_batched_tokens) == (128, 8192)
    assert spec.ports() == (8001, 8002, 8003, 8004)
    assert shape.shape_of(spec).kv_tokens == pytest.approx(1.6e6, rel=0.05)


def test_experts_are_spread_where_the_goal_asks() -> None:
    spec = goal("throughput", model="deepseek-r1-nvfp4")
    assert (spec.replicas, spec.tensor_parallel, spec.data_parallel) == (1, 1, 8)
    assert spec.expert_parallel is True
    assert shape.shape_of(spec).gpus == 8


def test_explicit_keys_win_over_the_goal() -> None:
    spec = goal("throughput", tensor_parallel=4, max_num_seqs=3)
    assert (spec.replicas, spec.tensor_parallel, spec.max_num_seqs) == (2, 4, 3)
    assert spec.max_num_batched_tokens == 16384


def test_without_a_goal_all_is_as_it_was() -> None:
    spec = resolved()
    assert isinstance(spec, NodeSpec)
    assert (spec.replicas, spec.tensor_parallel) == (2, 4)
    assert (spec.max_num_seqs, spec.max_num_batched_tokens) == (8, 2048)
    assert (spec.data_parallel, spec.expert_parallel) == (1, False)


def test_neither_goal_nor_figures_is_refused() -> None:
    found = problems(replicas=None, tensor_parallel=None)
    assert_message(found["replicas"])
    assert_message(found["tensor_parallel"])


@in_subtests(
    ("changes", "key"),
    [
        ({"model": "llama-3.1-405b-bf16", "replicas": 4, "tensor_parallel": 2}, "model"),
        ({"replicas": 2, "tensor_parallel": 3}, "tensor_parallel"),
        ({"max_model_len": 200_000}, "max_model_len"),
        ({"max_model_len": 131072, "model": "llama-3.3-70b-bf16", "replicas": 8,
             "tensor_parallel": 1}, "max_model_len"),
        ({"engine": {**ENGINE, "flags": {"attention-backend": "FLEX_ATTENTION"}}}, "engine.flags"),
        ({"replica_flags": {"1": {"attention-backend": "FLEX_ATTENTION"}}}, "replica_flags.1"),
        ({"replica_cpus": ["0-3", "3-7"]}, "replica_cpus"),
        ({"replica_cpus": ["0-3", "4-7"], "client_cpus": "7"}, "replica_cpus"),
        ({"replica_cpus": ["0-3", "4-7"], "gateway": {"cpus": "4"}}, "replica_cpus"),
        ({"gateway": {"cpus": "0-3"}, "client_cpus": "3"}, "gateway.cpus"),
        ({"client_cpus": "3-1"}, "client_cpus"),
        ({"replica_cpus": ["0-3"]}, "replica_cpus"),
        ({"replica_cpus": ["all", "4"]}, "replica_cpus.0"),
        ({"replica_ports": [8001, 8001]}, "replica_ports"),
        ({"data_parallel": 2}, "data_parallel"),
        ({"gpus": 7}, "gpus"),
        ({"gpus": 9}, "gpus"),
        ({"gpus": 7, "waivers": WAIVERS}, "replicas"),
        ({"goal": "fast"}, "goal"),
        ({"smoke": {"input_tokens": 4000, "output_tokens": 97}}, "smoke"),
        ({"smoke": {"turns": 2}}, "smoke.turns"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_under_its_key(changes: dict[str, Any], key: str) -> None:
    told_engine = changes.pop("engine", ENGINE)
    model = changes.pop("model", "llama-3.3-70b-fp8")
    merged = data(**({"engine": told_engine, "model": model} | changes))
    found = parse(merged, load.load())
    assert not isinstance(found, NodeSpec)
    assert_message(*[problem.message for problem in found if problem.key == key])
    assert all("\n" not in problem.message for problem in found)


def test_unknown_format_of_the_cache_is_refused() -> None:
    found = problems(engine={**ENGINE, "flags": {"kv-cache-dtype": "fp9"}})
    assert_message(found["engine.flags"])


def test_layout_of_a_goal_is_placed_on_the_node() -> None:
    node = Node("n05", goal("balanced"), state=states.healthy())
    layout = node.layout()
    assert [replica.gpus for replica in layout] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert {(r.tp, r.max_num_seqs, r.max_num_batched_tokens) for r in layout} == {(2, 128, 8192)}
    assert layout[0].kv_tokens == pytest.approx(1.6e6, rel=0.05)
    assert [r.tp for r in nominal_layout(node)] == [2] * 4


def test_degraded_node_is_planned_for_when_somebody_answers_for_it() -> None:
    spec = goal("balanced", gpus=7, waivers=WAIVERS)
    assert (spec.replicas, spec.tensor_parallel) == (3, 2)


def test_engine_without_gpus_is_not_held_to_their_memory() -> None:
    big = data(model="llama-3.1-405b-bf16", replicas=4, tensor_parallel=2)
    assert isinstance(parse(big, load.load()), NodeSpec)


def test_model_of_a_site_is_known_by_its_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(models.config()), encoding="utf-8")
    known = load.with_site_model(load.load(), "our-own", str(path))
    message = data(engine=ENGINE, model="our-own", model_config_file=str(path), goal="latency")
    spec = parse(
        {k: v for k, v in message.items() if k not in ("replicas", "tensor_parallel")}, known
    )
    assert isinstance(spec, NodeSpec), spec
    assert (spec.replicas, spec.tensor_parallel) == (8, 1)
    assert shape.model_of(spec).name == "our-own"
    assert shape.model_of(spec).dimensions == load.load().models["tiny-llama"].dimensions


@pytest.mark.parametrize("text", [None, "{", "[]", "{}"])
def test_config_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError) as refused:
        load.with_site_model(load.load(), "our-own", str(path))
    assert "\n" not in str(refused.value)


def test_goal_for_a_model_of_unknown_size_asks_for_its_config() -> None:
    message = data(goal="latency")
    del message["replicas"]
    found = parse(message, CATALOGUE)
    assert not isinstance(found, NodeSpec)
    assert [(p.key, "model_config_file" in p.message) for p in found] == [("goal", True)]


def test_gpu_of_any_kind_is_not_held_to_the_smallest() -> None:
    one = data(engine=ENGINE, model="llama-3.3-70b-fp8", hardware="single", replicas=1,
               tensor_parallel=1)  # fmt: skip
    assert isinstance(parse(one, load.load()), NodeSpec)


def test_catalogue_says_how_each_model_is_known() -> None:
    for name, document in load.model_documents().items():
        known = document["known"]
        needed = {"config", "revision", *(["flags"] if document["flags"] else [])}
        assert needed <= set(known), name
        for entry in known.values():
            assert set(entry) == {"kind", "date", "source"}, name
            assert entry["kind"] in ("measured", "quoted", "inferred"), name
        assert document["revision"] is None or len(document["revision"]) == 40, name
