"""Every model of the catalogue under every goal: what each engine is given, judged by its own list.

The lists come from the engines' own argument parsers (vLLM, SGLang) and, for TensorRT-LLM, from its
command and the fields of its LLM API. What an engine cannot serve is refused before any connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from b200kit import engines
from b200kit.catalog import engines as lists
from b200kit.catalog import load
from b200kit.engines import Settings
from b200kit.engines.flags import Version
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Replica
from b200kit.run.node import Node
from b200kit.serving import replica
from b200kit.sizing.goals import GOALS
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import states
from tests.unit.engines.test_engines import given
from tests.unit.specs import data

MODELS = sorted(load.load().models)
NAMES = ("vllm", "sglang", "trtllm")
IMAGE = f"registry.example.internal/engine@sha256:{'0' * 64}"
# What TensorRT-LLM 1.2 cannot serve, by the beginnings of families.
LATER = (
    "deepseek-v4",
    "gemma-4",
    "glm-4.7",
    "glm-5",
    "kimi-k2.",
    "minimax",
    "nemotron-3-ultra",
    "nemotron-3.5",
    "qwen3.5",
    "qwen3.6",
)
# Each refused pair, by what its one line names.
REFUSED = {
    ("trtllm", name): "engine.name"
    for name, model in load.load().models.items()
    if model.family.startswith(LATER)
}


def newest(name: str) -> Version:
    """The newest version that there is a list of."""
    return list(lists.load()[name].versions.values())[-1]


def asked(name: str, model: str, goal: str | None, **changes: Any) -> NodeSpec | dict[str, str]:
    """The spec of a node, or key to message of what is wrong with it."""
    engine = {"kind": "cuda", "name": name, "version": newest(name).version, "image": IMAGE}
    message = data(engine=engine, model=model, goal=goal, container_runtimes=["podman"]) | changes
    whole = {k: v for k, v in message.items() if k not in ("replicas", "tensor_parallel")}
    found = parse(whole | changes, load.load())
    return found if isinstance(found, NodeSpec) else {p.key: p.message for p in found}


def first(spec: NodeSpec) -> tuple[Replica, Settings]:
    """The first replica of a node, and what its engine is given."""
    node = Node("n05", spec, state=states.healthy())
    one = node.layout()[0]
    return one, replica.settings(node, one)


def wrong(version: Version, flags: dict[str, Any]) -> Iterator[str]:
    """What the engine's own list objects to."""
    for name, value in flags.items():
        flag = version.fields.get(name) or version.flags.get(name)
        values = value if isinstance(value, list) else [value]
        if flag and flag.type == "json" and isinstance(value, list):
            values = [json.dumps(value)]
        yield from (f"{name} {said}" for one in values if (said := version.wrong_flag(name, one)))


def ranks(name: str, flags: dict[str, Any]) -> int:
    """GPUs that an engine starts a process on, as it counts them itself."""
    sizes = {
        "vllm": ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"),
        "sglang": ("tp-size", "pp-size", "dp-size"),
        "trtllm": ("tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size"),
    }
    product = 1
    for size in sizes[name]:
        product *= int(flags.get(size, 1))
    return product


@in_subtests("model", MODELS, one_in=4)
@in_subtests("goal", sorted(GOALS))
@pytest.mark.parametrize("name", NAMES)
def test_engine_takes_what_it_is_given_or_is_refused(name: str, goal: str, model: str) -> None:
    spec = asked(name, model, goal)
    if key := REFUSED.get((name, model)):
        assert isinstance(spec, dict)
        assert list(spec) == [key]
        return
    assert isinstance(spec, NodeSpec), spec
    one, settings = first(spec)
    kind = engines.get(spec.engine)
    flags = given(kind, settings)
    assert list(wrong(newest(name), flags)) == []
    assert ranks(name, flags) == len(one.gpus)
    variables = kind.environment(settings)
    assert [newest(name).wrong_variable(v, kind.variables) for v in variables] == [""] * len(
        variables
    )


@pytest.mark.parametrize(
    ("name", "model"),
    [("trtllm", model) for model in ("qwen3.5-27b-fp8", "qwen3.5-27b-fp8-mtp", "glm-5-nvfp4")],
)
def test_refusal_says_why_in_one_line(name: str, model: str) -> None:
    spec = asked(name, model, "latency")
    assert isinstance(spec, dict)
    assert_message(*(f"{key}: {message}" for key, message in spec.items()))


EXPERTS = "deepseek-r1-nvfp4"
# A mixture of experts at throughput: attention by eight data-parallel ranks, experts over all GPUs.
SPREAD: dict[str, dict[str, object]] = {
    "vllm": {
        "tensor-parallel-size": 1,
        "data-parallel-size": 8,
        "enable-expert-parallel": True,
        "max-num-seqs": 256,
        "max-num-batched-tokens": 16384,
        "kv-cache-dtype": "fp8",
    },
    # Both limits are of all ranks together.
    "sglang": {
        "tp-size": 8,
        "attn-dp-size": 8,
        "ep-size": 8,
        "max-running-requests": 8 * 256,
        "chunked-prefill-size": 8 * 16384,
        "enable-dp-lm-head": True,
        "kv-cache-dtype": "fp8_e4m3",
        "stream-interval": 10,
    },
    "trtllm": {
        "tensor_parallel_size": "8",
        "moe_expert_parallel_size": "8",
        "enable_attention_dp": True,
        "attention_dp_config.enable_balance": True,
        "max_batch_size": "256",
        "max_num_tokens": "16384",
        "moe_config.backend": "CUTLASS",
        "kv_cache_config.dtype": "fp8",
        "cuda_graph_config.max_batch_size": 256,
        "speculative_config.decoding_type": "MTP",
        "speculative_config.num_nextn_predict_layers": 1,
        "stream_interval": 10,
    },
}
# The same for few requests: one group of tensor parallelism, no expert parallelism, drafts.
TOGETHER: dict[str, dict[str, object]] = {
    "vllm": {
        "tensor-parallel-size": 4,
        "performance-mode": "interactivity",
        "speculative-config": '{"method":"mtp","num_speculative_tokens":3}',
        "reasoning-parser": "deepseek_r1",
    },
    "sglang": {
        "tp-size": 4,
        "speculative-algorithm": "EAGLE",
        "speculative-num-draft-tokens": 3,
        "max-running-requests": 8,
        "reasoning-parser": "deepseek-r1",
    },
    "trtllm": {
        "tensor_parallel_size": "4",
        "moe_config.backend": "TRTLLM",
        "speculative_config.num_nextn_predict_layers": 3,
        "reasoning_parser": "deepseek-r1",
    },
}
# What would be another layout, or whole copies of the model.
ABSENT = {"data-parallel-size", "dp-size", "enable-dp-attention", "attn-dp-size", "ep-size"}
ABSENT |= {"enable-expert-parallel", "enable_attention_dp", "moe_expert_parallel_size"}
ABSENT |= {"stream-interval", "stream_interval"}


def flags_of(name: str, model: str, goal: str | None, **changes: Any) -> dict[str, Any]:
    """All flags of the first replica."""
    spec = asked(name, model, goal, **changes)
    assert isinstance(spec, NodeSpec), spec
    return given(engines.get(spec.engine), first(spec)[1])


@pytest.mark.parametrize("name", NAMES)
def test_mixture_for_throughput_has_attention_by_data_and_experts_spread(name: str) -> None:
    flags = flags_of(name, EXPERTS, "throughput")
    assert {key: flags.get(key) for key in SPREAD[name]} == SPREAD[name]
    assert not {"dp-size", "enable-dp-attention"} & set(flags)


@pytest.mark.parametrize("name", NAMES)
def test_mixture_for_latency_is_one_group_with_drafts(name: str) -> None:
    flags = flags_of(name, EXPERTS, "latency", tensor_parallel=4)
    assert {key: flags.get(key) for key in TOGETHER[name]} == TOGETHER[name]
    assert not ABSENT & set(flags)


@pytest.mark.parametrize("name", NAMES)
def test_experts_are_spread_over_one_group_where_the_goal_is_between(name: str) -> None:
    flags = flags_of(name, EXPERTS, "balanced", tensor_parallel=4)
    spread = {"vllm": "enable-expert-parallel", "sglang": "ep-size"}
    size = flags[spread.get(name, "moe_expert_parallel_size")]
    assert size == {"vllm": True, "sglang": 4, "trtllm": "4"}[name]
    assert not ({"attn-dp-size", "dp-size", "enable_attention_dp"} & set(flags))


@pytest.mark.parametrize("name", NAMES)
def test_file_on_the_node_is_the_configuration_nested_parts_and_all(name: str) -> None:
    spec = asked(name, EXPERTS, "throughput")
    assert isinstance(spec, NodeSpec)
    settings = first(spec)[1]
    file = replica.configuration(Node("n05", spec, state=states.healthy()), settings)
    assert yaml.safe_load(file.content) == engines.get(spec.engine).config(settings)


def test_fields_of_trtllm_s_file_may_be_given_by_their_parts_and_lists_as_json() -> None:
    own = {"cuda_graph_config.batch_sizes": "[1, 2, 4]", "moe_config.backend": "TRITON"}
    kind = engines.KINDS["trtllm"]
    spec = asked("trtllm", EXPERTS, "throughput")
    assert isinstance(spec, NodeSpec)
    flags = {**first(spec)[1].flags, **own}
    config = kind.config(replace(first(spec)[1], flags=flags))
    graphs = {"enable_padding": True, "max_batch_size": 256, "batch_sizes": [1, 2, 4]}
    assert config["cuda_graph_config"] == graphs
    assert config["moe_config"] == {"backend": "TRITON"}
    assert list(wrong(newest("trtllm"), own)) == []


def test_trtllm_that_would_split_attention_within_data_ranks_is_refused() -> None:
    spec = asked("trtllm", EXPERTS, "throughput", tensor_parallel=2, data_parallel=4)
    assert isinstance(spec, dict)
    assert_message(*(f"{key}: {message}" for key, message in spec.items()))


@in_subtests("goal", ["latency", "balanced", None])
def test_tokens_come_one_by_one_but_for_throughput(goal: str | None) -> None:
    figures = {} if goal else {"replicas": 2, "tensor_parallel": 1}
    for name in NAMES:
        flags = flags_of(name, "gpt-oss-120b", goal, **figures)
        assert not {"stream-interval", "stream_interval"} & set(flags)
    assert flags_of("vllm", "gpt-oss-120b", "throughput")["stream-interval"] == 20


@in_subtests(
    ("model", "tokens"),
    [("deepseek-r1-fp8", 65536), ("gpt-oss-120b", 65536), ("llama-3.3-70b-fp8", 4096)],
)
def test_context_has_room_for_thinking(model: str, tokens: int) -> None:
    assert flags_of("vllm", model, "latency")["max-model-len"] == tokens
    assert flags_of("vllm", model, "latency", max_model_len=2048)["max-model-len"] == 2048


# Its parser is a file of the checkpoint.
PARSED_BY_ITSELF = ("nemotron-3-nano",)


@in_subtests("model", [n for n in MODELS if load.load().models[n].family in load.load().contexts])
@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_model_that_thinks_has_a_parser_of_its_thoughts(name: str, model: str) -> None:
    parsed = "reasoning-parser" in flags_of(name, model, "balanced")
    known = name == "sglang" or load.load().models[model].family not in PARSED_BY_ITSELF
    assert parsed is known


def test_levers_are_data_with_a_source() -> None:
    for name in NAMES:
        known = lists.load()[name]
        for lever in known.levers:
            assert lever.kind in ("quoted", "inferred"), lever
            assert all((lever.source, lever.date, lever.flags)), lever
            # Before a layout is planned nobody knows whether it is spread, and these are counted.
            counted = {engines.KINDS[name].kv_flag, "gpu-memory-utilization"}
            assert lever.spread is None or not engines.KINDS[name].drafted(lever.flags)
            assert not counted & set(lever.flags)
    families = {model.family for model in load.load().models.values()}
    assert set(load.load().contexts) <= families
    everywhere = {*MODELS, *families}
    levers = [lever for name in NAMES for lever in lists.load()[name].levers]
    assert {known for lever in levers for known in (*lever.models, *lever.families)} <= everywhere
