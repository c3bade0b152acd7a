"""Model, hardware and goal give a shape, with reasons; what cannot work is refused with figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.inventory import defaults, engine_flags
from b200kit.sizing import fit, kv_cache_formats, memory, model_config, planner
from b200kit.sizing.dimensions import WIDTHS, ModelError
from b200kit.sizing.fit import GpuPool, Impossible, Requested, Subject
from b200kit.sizing.goals import GOALS
from b200kit.sizing.gpu_model import GpuModel
from b200kit.sizing.planner import SizingPlan
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit import golden_plans

MODELS = load.load().models
WHOLE = load.load().hardware["hgx-b200"]
B200 = GpuPool("hgx-b200", 8, WHOLE.gpu_bytes, 8)


def subject(name: str) -> Subject:
    """A model of the catalogue."""
    return defaults.subject(MODELS[name])


def plan(name: str, goal: str = "latency", pool: GpuPool = B200, **requested: Any) -> SizingPlan:
    """The plan for a model of the catalogue, with the KV cache that its flags ask for."""
    message = {"goal": goal, "kv_dtype": engine_flags.kv_of(MODELS[name])}
    others = defaults.siblings(MODELS[name], load.load())
    return planner.decide(subject(name), pool, Requested(**(message | requested)), others)


def refusal(name: str, goal: str = "latency", pool: GpuPool = B200, **requested: Any) -> Impossible:
    """Why it cannot be."""
    with pytest.raises(Impossible) as refused:
        plan(name, goal, pool, **requested)
    return refused.value


def test_golden_table_is_what_is_planned() -> None:
    stored = golden_plans.GOLDEN.read_text(encoding="utf-8")
    assert stored == golden_plans.table(), (
        "renew it as its first lines say, and read the difference"
    )


# What recipes for eight B200s say of the same models (the files of the catalogue name them).
@in_subtests(
    ("name", "goal", "replicas", "tp"),
    [
        ("llama-3.3-70b-fp8", "throughput", 8, 1),
        ("llama-3.3-70b-fp8", "balanced", 4, 2),
        ("llama-3.3-70b-fp8", "latency", 2, 4),
        ("llama-3.3-70b-nvfp4", "throughput", 8, 1),
        ("llama-3.3-70b-nvfp4", "balanced", 4, 2),
        ("llama-3.1-8b-bf16", "latency", 8, 1),
        ("qwen3.5-27b-fp8", "throughput", 8, 1),
        ("gpt-oss-120b", "throughput", 8, 1),
        ("deepseek-r1-fp8", "latency", 1, 8),
        ("deepseek-r1-nvfp4", "latency", 2, 4),
        ("kimi-k2-nvfp4", "latency", 1, 8),
    ],
)
def test_shape_is_the_one_of_the_recipes(name: str, goal: str, replicas: int, tp: int) -> None:
    made = plan(name, goal)
    assert (made.replicas, made.shape.tp, made.shape.dp) == (replicas, tp, 1)


# The sizing table of ten models on B200, at the width that each goal takes; millions of tokens.
@in_subtests(
    ("name", "figures"),
    [
        ("llama-3.3-70b-bf16", (1.6, 0.6, 0.6)),
        ("llama-3.3-70b-fp8", (3.7, 1.6, 0.59)),
        ("llama-3.3-70b-nvfp4", (3.9, 1.8, 0.77)),
        ("llama-3.1-8b-bf16", (1.2, 1.2, 1.2)),
        ("llama-3.1-405b-fp8", (1.05, 1.05, 1.05)),
        ("qwen3-235b-nvfp4", (5.7, 2.1, None)),
        ("deepseek-r1-fp8", (2.3, 2.3, None)),
        ("deepseek-r1-nvfp4", (1.8, 1.8, None)),
        ("kimi-k2-nvfp4", (2.6, 2.6, None)),
    ],
)
def test_kv_tokens_of_a_plan_are_those_of_the_table(
    name: str, figures: tuple[float | None, ...]
) -> None:
    for goal, millions in zip(GOALS, figures, strict=True):
        if millions is not None:
            tokens = plan(name, goal).shape.kv_tokens or 0
            assert tokens / 1e6 == pytest.approx(millions, rel=0.05), goal


def made_up(layers: int, kv_heads: int, method: str, experts: int = 0) -> Subject:
    """A model of so many layers of 5120, dense or with so many experts, of which a token uses 2."""
    config: dict[str, Any] = {
        "model_type": "qwen3_moe" if experts else "qwen3",
        "num_hidden_layers": layers,
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_attention_heads": 64,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "quantization_config": {"quant_method": method} if method != "bf16" else None,
    }
    mixture = {"num_experts": experts, "num_experts_per_tok": 2} if experts else {}
    dimensions = model_config.parse(config | mixture)
    return Subject("made-up", dimensions, memory.weights(dimensions))


def widths(one: Subject, pool: GpuPool = B200) -> list[int]:
    """TP by goal, from latency over balanced to throughput; none where it fits nowhere."""
    try:
        return [planner.decide(one, pool, Requested(goal=goal)).shape.tp for goal in GOALS]
    except Impossible:
        return []


# 32B are 64 layers; 8 KV heads as Qwen3 has them, 64 for models without grouped queries.
@in_subtests("layers", [16, 32, 48, 64, 80, 128, 192, 256])
@in_subtests("kv_heads", [4, 8, 64])
@in_subtests("method", ["bf16", "fp8", "nvfp4"])
@in_subtests("experts", [0, 4, 16])
def test_goal_of_larger_batches_never_takes_wider_groups(
    layers: int, kv_heads: int, method: str, experts: int
) -> None:
    found = widths(made_up(layers, kv_heads, method, experts))
    assert found == sorted(found, reverse=True)


def test_throughput_of_a_32b_is_one_gpu_each_as_balanced_is() -> None:
    assert widths(made_up(64, 8, "nvfp4")) == [2, 1, 1]
    assert widths(made_up(64, 8, "bf16")) == [4, 2, 1]


def test_groups_grow_by_the_weights_that_a_step_reads() -> None:
    dense, mixture = made_up(104, 8, "fp8"), made_up(2, 8, "fp8", experts=64)
    assert mixture.weights.total == pytest.approx(dense.weights.total, rel=0.05)
    assert mixture.active < dense.active / 3
    assert (widths(dense), widths(mixture)) == ([4, 2, 1], [1, 1, 1])
    model = subject("qwen3-235b-nvfp4")
    # 8 tokens to 8 of 128 experts each use 40 % of them.
    share = (model.active - model.weights.rest) / model.weights.routed
    assert share == pytest.approx(1 - (120 / 128) ** 8)
    assert_message(plan("qwen3-235b-nvfp4").why[0])


def test_mixture_that_does_not_say_how_many_experts_a_token_uses_is_refused() -> None:
    with raises_message(ModelError):
        model_config.parse(
            {"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 64,
             "num_attention_heads": 2, "vocab_size": 100, "max_position_embeddings": 64,
             "intermediate_size": 64, "num_experts": 4}
        )  # fmt: skip


H100 = GpuPool("hgx-h100", 8, load.load().hardware["hgx-h100"].gpu_bytes, 8,
               frozenset(load.load().hardware["hgx-h100"].gpus.values()))  # fmt: skip


@in_subtests("name", [name for name in sorted(MODELS) if name.endswith("nvfp4")])
def test_nvfp4_is_refused_where_no_gpu_computes_in_it(name: str) -> None:
    refused = refusal(name, pool=H100)
    assert refused.key == "model"
    assert_message(str(refused))
    assert plan(name, pool=replace(B200, models=frozenset({GpuModel("B200", "Blackwell")})))


def test_a_part_in_nvfp4_is_refused_there_as_well() -> None:
    dense = MODELS["llama-3.1-8b-bf16"].dimensions
    assert dense is not None
    mixed = replace(dense, parts={"dense": {"nvfp4": 0.1, "bf16": 0.9}})
    subject = Subject("mixed", mixed, memory.weights(mixed))
    planner.decide(subject, B200, Requested(goal="latency"))
    with pytest.raises(Impossible, match="NVFP4 needs a Blackwell GPU"):
        planner.decide(subject, H100, Requested(goal="latency"))


def test_cache_in_nvfp4_is_refused_there_and_mxfp4_is_not() -> None:
    refused = refusal("llama-3.1-8b-bf16", pool=H100, kv_dtype="nvfp4")
    assert refused.key == "engine.flags"
    assert_message(str(refused))
    assert plan("gpt-oss-120b", pool=H100)


@pytest.mark.parametrize("name", ["deepseek-r1-nvfp4", "deepseek-v3.1-fp8", "kimi-k2-nvfp4"])
def test_experts_go_from_tp_over_tp_with_ep_to_dp_with_ep(name: str) -> None:
    few, more, many = (plan(name, goal).shape for goal in GOALS)
    assert (few.dp, few.ep, few.tp > 1) == (1, False, True)
    assert (more.dp, more.ep, more.tp > 1) == (1, True, True)
    assert (many.dp, many.ep, many.tp) == (8, True, 1)
    assert (many.kv_tokens or 0) > 4 * (more.kv_tokens or 0)


@in_subtests("name", sorted(MODELS))
@in_subtests("goal", GOALS)
def test_plans_use_every_gpu_and_say_why(name: str, goal: str) -> None:
    made = plan(name, goal)
    assert made.replicas * made.shape.gpus == 8
    assert made.shape.max_num_seqs == GOALS[goal].max_num_seqs
    assert made.shape.kv_tokens
    assert made.why[0].startswith(("TP", "DP"))
    assert made.rejected
    assert not any("\n" in line or not line.strip() for line in (*made.why, *made.rejected))
    taken = f"TP{made.shape.tp}:"
    assert made.shape.dp > 1 or not any(line.startswith(taken) for line in made.rejected)


@pytest.mark.parametrize("goal", GOALS)
def test_dense_model_is_never_split_over_sockets_when_it_need_not(goal: str) -> None:
    assert plan("llama-3.1-405b-fp8", goal).shape.tp == 4
    assert plan("llama-3.1-405b-bf16", goal).shape.tp == 8


def test_what_does_not_fit_says_what_lacks_and_what_would_do() -> None:
    refused = refusal("llama-3.1-405b-bf16", tp=2, replicas=1)
    assert refused.key == "model"
    assert_message(str(refused))


def test_what_no_width_holds_asks_for_more_nodes() -> None:
    small = replace(B200, gpu_bytes=40 << 30)
    assert_message(str(refusal("deepseek-r1-fp8", pool=small)))


def test_context_that_the_cache_cannot_hold_is_refused_with_its_figures() -> None:
    refused = refusal("llama-3.3-70b-bf16", tp=1, replicas=8, max_model_len=100_000)
    assert refused.key == "max_model_len"
    assert "have room for 87" in str(refused)
    assert "Try TP2" in str(refused)


@pytest.mark.parametrize(("name", "tp"), [("llama-3.3-70b-fp8", 3), ("qwen3.5-27b-fp8", 6)])
def test_width_that_divides_no_heads_is_refused(name: str, tp: int) -> None:
    refused = refusal(name, tp=tp)
    assert refused.key == "tensor_parallel"
    assert_message(str(refused))


def test_dense_model_takes_neither_dp_nor_ep() -> None:
    assert refusal("llama-3.1-8b-bf16", dp=2).key == "data_parallel"
    assert refusal("llama-3.1-8b-bf16", ep=True).key == "expert_parallel"


def test_explicit_keys_win_over_the_goal() -> None:
    made = plan("llama-3.3-70b-fp8", "latency", tp=2, replicas=3, max_num_seqs=5)
    assert (made.replicas, made.shape.tp, made.shape.max_num_seqs) == (3, 2, 5)
    assert_message(made.why[0])
    assert plan("llama-3.3-70b-fp8", "latency", replicas=8).shape.tp == 1


@pytest.mark.parametrize(
    ("name", "goal", "replicas", "gpus"),
    [
        ("llama-3.3-70b-fp8", "latency", 3, 2),
        ("llama-3.3-70b-fp8", "throughput", 7, 1),
        ("deepseek-r1-nvfp4", "latency", 1, 4),
        ("deepseek-r1-nvfp4", "throughput", 1, 4),
        ("qwen3-235b-fp8", "throughput", 3, 2),
        ("qwen3-235b-nvfp4", "throughput", 3, 2),
    ],
)
def test_seven_gpus_carry_as_many_whole_replicas_as_they_can(
    name: str, goal: str, replicas: int, gpus: int
) -> None:
    made = plan(name, goal, replace(B200, gpus=7))
    assert (made.replicas, made.shape.gpus) == (replicas, gpus)
    idle = 7 - replicas * gpus
    assert any("idle" in line for line in made.why) is (idle > 0)


@in_subtests("name", sorted(MODELS), one_in=4)
@in_subtests("goal", GOALS)
@in_subtests("gpus", range(1, 9))
def test_no_gpu_is_idle_that_another_split_would_use(name: str, goal: str, gpus: int) -> None:
    pool = replace(B200, gpus=gpus)
    try:
        made = plan(name, goal, pool)
    except Impossible:
        return
    idle = gpus - made.replicas * made.shape.gpus
    # One of five or more may be; beyond that no split that holds as much leaves fewer.
    for tp in WIDTHS:
        dense = Requested(
            goal=goal,
            kv_dtype=engine_flags.kv_of(MODELS[name]),
            max_num_seqs=GOALS[goal].max_num_seqs,
            max_num_batched_tokens=GOALS[goal].max_num_batched_tokens,
        )
        one = fit.headrooms(subject(name), pool, dense).get(tp)
        if idle > gpus / 5 and one is not None and fit.enough(one, dense):
            assert gpus % tp >= idle


# Eight KV heads over sixteen ranks are stored twice.
@pytest.mark.parametrize(("join", "share"), [("pipeline", 1), ("tensor", 1 / 2)])
def test_two_nodes_hold_what_one_cannot(join: str, share: float) -> None:
    small = replace(B200, gpu_bytes=B200.gpu_bytes / 2)
    assert "missing" in str(refusal("llama-3.1-405b-bf16", pool=small))
    made = plan("llama-3.1-405b-bf16", pool=small, nodes=2, join=join, replicas=1)
    assert (made.replicas, made.shape.tp, made.shape.pp) == (1, 8, 1)
    alone = plan("llama-3.1-405b-bf16").shape.kv_tokens or 0
    assert made.shape.kv_tokens == pytest.approx(alone * share, rel=0.1)


def test_model_that_needs_all_eight_is_refused_on_seven() -> None:
    assert "missing" in str(refusal("deepseek-r1-fp8", pool=replace(B200, gpus=7)))


def test_too_little_left_for_the_cache_is_not_enough() -> None:
    four, eight = (plan("kimi-k2-nvfp4", tp=tp, replicas=1) for tp in (4, 8))
    assert any(line.startswith("tight: 12%") for line in four.why)
    assert not any(line.startswith("tight") for line in eight.why)
    assert_message(" ".join(plan("kimi-k2-nvfp4").rejected))


@pytest.mark.parametrize(
    ("flags", "dtype", "message"),
    [
        ({"attention-backend": "FLEX_ATTENTION"}, "fp8", "FLEX_ATTENTION cannot keep"),
        ({"attention-backend": "flash_attn_mla"}, "fp8", "FLASH_ATTN_MLA cannot keep"),
        ({"attention-config": '{"backend": "FLEX_ATTENTION"}'}, "fp8_e5m2", "FLASHINFER"),
        ({"attention-backend": "FLASH_ATTN"}, "nvfp4", "FLASHINFER can"),
    ],
)
def test_backend_that_lacks_the_format_of_the_cache_is_refused(
    flags: dict[str, str], dtype: str, message: str
) -> None:
    assert message in (kv_cache_formats.refusal(flags, dtype) or "")


@in_subtests(
    ("flags", "dtype"),
    [
        ({}, "fp8"),
        ({"attention-backend": "FLASHINFER"}, "fp8"),
        ({"attention-backend": "FLEX_ATTENTION"}, "auto"),
        ({"attention-backend": "B12X"}, "fp8"),
        ({"attention-config": "not JSON"}, "fp8"),
    ],
)
def test_backend_that_can_or_is_not_known_passes(flags: dict[str, str], dtype: str) -> None:
    assert kv_cache_formats.refusal(flags, dtype) is None
