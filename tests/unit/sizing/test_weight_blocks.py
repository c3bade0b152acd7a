"""A layout that would cut weights that share a scale is neither chosen nor taken."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.inventory import defaults
from b200kit.node.placement.layout import Shape
from b200kit.sizing import memory, model_config, planner, weight_blocks
from b200kit.sizing.dimensions import ModelError
from b200kit.sizing.fit import GpuPool, Requested, Subject
from b200kit.sizing.goals import GOALS
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.engines.test_catalogue_commands import asked


@in_subtests(
    ("model", "shape", "refused"),
    [
        ("qwen3-235b-fp8", Shape(tp=4), False),
        ("qwen3-235b-fp8", Shape(tp=8), True),
        ("qwen3-235b-fp8", Shape(tp=8, ep=True), False),
        ("qwen3-235b-fp8", Shape(dp=8, ep=True), False),
        # Without EP the experts are split over all ranks, those of data parallelism included.
        ("qwen3-235b-fp8", Shape(tp=2, dp=4), True),
        ("qwen3-235b-bf16", Shape(tp=8), False),
        ("deepseek-r1-fp8", Shape(tp=8), False),
        ("qwen3.5-27b-fp8", Shape(tp=8), False),
        # A shared expert of 512, which EP leaves cut (vllm-project/vllm#52997).
        ("qwen3-next-80b-fp8", Shape(tp=8), True),
        ("qwen3-next-80b-fp8", Shape(tp=8, ep=True), True),
        ("qwen3-next-80b-fp8", Shape(tp=4, ep=True), False),
        ("qwen3-next-80b-fp8", Shape(dp=8, ep=True), False),
        # MXFP4 is handed out by whole blocks of 32: 2880 over 8 GPUs.
        ("gpt-oss-120b", Shape(tp=8), False),
        ("kimi-k2.5-int4", Shape(tp=8), False),
        ("deepseek-r1-nvfp4", Shape(tp=8), False),
    ],
)
def test_only_a_shape_that_cuts_a_block_is_refused(model: str, shape: Shape, refused: bool) -> None:
    dimensions = load.load().models[model].dimensions
    assert dimensions
    assert any(weight_blocks.refusal(dimensions, shape)) is refused


def test_refusal_names_what_would_do() -> None:
    found = asked("vllm", "qwen3-235b-fp8", "latency", tensor_parallel=8)
    assert isinstance(found, dict)
    assert_message(*(f"{key}: {message}" for key, message in found.items()))


B200 = GpuPool("hgx-b200", 8, 180e9, 8)
# Qwen2.5-72B and a mixture like Qwen3-30B-A3B.
DENSE = {
    "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 80,
    "vocab_size": 152064, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXED = DENSE | {
    "model_type": "qwen3_moe", "hidden_size": 2048, "moe_intermediate_size": 768, "head_dim": 128,
    "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [],
}  # fmt: skip
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
WEIGHTS = {"num_bits": 4, "type": "int", "group_size": 128}
GROUPS = {
    "quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}},
}  # fmt: skip
CHANNEL = WEIGHTS | {"group_size": None, "strategy": "channel"}
CHANNELS = GROUPS | {"config_groups": {"group_0": {"targets": ["Linear"], "weights": CHANNEL}}}


@in_subtests(
    ("config", "quantised", "able"),
    [
        (DENSE, None, [1, 2, 4, 8]),
        (DENSE, FP8, [1]),
        (DENSE, FP8 | {"weight_block_size": [64, 64]}, [1, 2]),
        (DENSE, {"quant_method": "awq", "bits": 4, "group_size": 128}, [1]),
        (DENSE, {"quant_method": "gptq", "bits": 4, "group_size": 32}, [1, 2, 4]),
        (DENSE, {"quant_method": "gptq", "bits": 8, "group_size": 128}, [1]),
        (DENSE, {"quant_method": "gptq", "bits": 8, "group_size": -1}, [1, 2, 4, 8]),
        (DENSE, {"quant_method": "fp8"}, [1, 2, 4, 8]),
        (DENSE, GROUPS, [1]),
        (DENSE, CHANNELS, [1, 2, 4, 8]),
        (DENSE, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, [1, 2, 4, 8]),
        (DENSE, {"quant_method": "modelopt", "quant_algo": "MXFP8"}, [1, 2, 4]),
        (MIXED, FP8, [1, 2]),
        (MIXED, GROUPS, [1, 2]),
        # vLLM halves groups of AWQ and GPTQ until the part of an expert has whole ones.
        (MIXED, {"quant_method": "awq", "bits": 4, "group_size": 128}, [1, 2, 4, 8]),
        (MIXED, {"quant_method": "mxfp4"}, [1, 2, 4, 8]),
    ],
)
def test_widths_that_a_format_leaves(
    config: dict[str, Any], quantised: dict[str, Any] | None, able: list[int]
) -> None:
    stated = {"quantization_config": quantised} if quantised else {}
    dimensions = model_config.parse(config | stated)
    widths = (1, 2, 4, 8)
    assert [n for n in widths if not any(weight_blocks.refusal(dimensions, Shape(tp=n)))] == able
    # Every goal plans with one of them, though a wider one would be faster or hold more.
    subject = Subject("m", dimensions, memory.weights(dimensions))
    for goal in GOALS:
        plan = planner.decide(subject, B200, Requested(goal=goal))
        assert plan.shape.tp in able or plan.shape.ep
        assert not any(weight_blocks.refusal(dimensions, plan.shape))


@in_subtests(
    "quantised",
    [
        "fp8",
        [FP8],
        *(FP8 | {"weight_block_size": shape} for shape in ("128", [0, 0], [128, True], [128, -2])),
        *({"quant_method": "awq", "bits": 4, "group_size": size} for size in (0, "128", True)),
    ],
)
def test_format_of_no_form_is_refused(quantised: object) -> None:
    with pytest.raises(ModelError):
        model_config.parse(DENSE | {"quantization_config": quantised})


def test_refusal_says_what_does_and_never_what_does_not() -> None:
    shared = load.load().models["qwen3-next-80b-fp8"].dimensions
    assert shared
    for ep in (False, True):
        key, text = weight_blocks.refusal(shared, Shape(tp=8, ep=ep))
        assert (key, "expert_parallel" in text) == ("tensor_parallel", False)
        assert "at most 4 GPUs a replica" in text
    assert_message(text)


def test_experts_are_spread_where_only_a_width_that_would_cut_them_holds_the_model() -> None:
    model = load.load().models["qwen3-coder-480b-fp8"]
    h100 = GpuPool("hgx-h100", 8, 80e9, 8)
    plan = planner.decide(defaults.subject(model), h100, Requested(goal="latency"))
    assert (plan.shape.tp, plan.shape.ep) == (8, True)
