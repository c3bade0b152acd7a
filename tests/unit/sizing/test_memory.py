"""Bytes of weights and KV cache, against figures that others published or measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from b200kit.catalog import load
from b200kit.node.placement.layout import Shape
from b200kit.sizing import fit, memory, model_config
from b200kit.sizing.dimensions import Cache, Dimensions, LayerState, ModelError
from b200kit.sizing.fit import GpuPool, Requested, Subject
from b200kit.sizing.memory import GIB, Memory
from tests.messages import raises_message
from tests.subtests import in_subtests

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "intermediate_size": 28672,
    "max_position_embeddings": 131072,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral",
    "num_hidden_layers": 56, "hidden_size": 6144, "num_attention_heads": 48,
    "num_key_value_heads": 8, "vocab_size": 32768, "intermediate_size": 16384,
    "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 65536,
}  # fmt: skip


def known(name: str) -> Dimensions:
    """The dimensions of a model of the catalogue."""
    dimensions = load.load().models[name].dimensions
    assert dimensions is not None
    return dimensions


def token_bytes(shape: Dimensions, tp: int = 1, dtype: str = "auto", draft: bool = False) -> float:
    """Cache of one token of a sequence on one GPU, without recurrent states."""
    longer, long = (
        memory.sequence_bytes(shape, tokens, tp=tp, dtype=dtype, drafted=int(draft))
        for tokens in (2 * 10**9, 10**9)
    )
    return round((longer - long) / 10**9)


def caching(shape: Dimensions) -> int:
    """How many layers keep something of each token."""
    return sum(one.layers for one in shape.keeps if isinstance(one, Cache))


def config(**changes: Any) -> Dimensions:
    """A Llama of 70B with some keys changed."""
    return model_config.parse(LLAMA | changes)


@in_subtests(
    ("name", "billions"),
    [
        ("llama-3.1-8b-bf16", 8.03),
        ("llama-3.3-70b-bf16", 70.55),
        ("llama-3.1-405b-bf16", 405.85),
        ("qwen3-235b-bf16", 235.09),
        ("deepseek-r1-fp8", 671.03),
        ("kimi-k2-nvfp4", 1026.4),
        ("gpt-oss-120b", 116.8),
        ("qwen3.5-27b-fp8", 26.9),
    ],
)
def test_weights_are_counted_as_the_makers_count_them(name: str, billions: float) -> None:
    assert known(name).parameters.total / 1e9 == pytest.approx(billions, rel=0.002)


# The makers' or loaders' own figures of the same checkpoints, in bytes.
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("deepseek-r1-fp8", 688_586_727_753),  # safetensors; counted here from the config
        ("kimi-k2-nvfp4", 553 * GIB),  # on disk, as one who downloaded it wrote
        ("gpt-oss-120b", 65.2e9),
        ("qwen3-235b-fp8", 221 * GIB),  # on disk, as one who downloaded it wrote
    ],
)
def test_counted_weights_are_those_of_published_checkpoints(name: str, published: float) -> None:
    assert memory.weights(known(name)).total == pytest.approx(published, rel=0.01)


# Section "KV bytes a token" of the sizing table: KiB a token in BF16 and in FP8.
@in_subtests(
    ("dimensions", "wide", "narrow"),
    [
        (known("llama-3.1-8b-bf16"), 128, 64),
        (known("llama-3.3-70b-bf16"), 320, 160),
        (known("llama-3.1-405b-bf16"), 504, 252),
        (model_config.parse(MIXTRAL), 224, 112),
        (known("qwen3-235b-bf16"), 188, 94),
        (known("deepseek-r1-fp8"), 68.625, 34.3125),
        (known("kimi-k2-nvfp4"), 68.625, 34.3125),
        (known("qwen3.5-27b-fp8"), 64, 32),
    ],
)
def test_kv_cache_of_a_token(dimensions: Dimensions, wide: float, narrow: float) -> None:
    assert token_bytes(dimensions, dtype="bfloat16") == wide * 1024
    assert token_bytes(dimensions, dtype="fp8") == narrow * 1024


def test_kv_cache_of_a_real_b200_log() -> None:
    # vLLM on a B200 (vllm-project/vllm#23439): 157.27 GiB of KV cache are 1,472,416 tokens.
    config_28 = config(num_hidden_layers=28)
    assert token_bytes(config_28) == 114_688
    tokens = 157.27 * GIB / token_bytes(config_28)
    assert tokens == pytest.approx(1_472_416, abs=16 + 0.005 * GIB / 114_688)


# KV tokens a replica by width of TP, millions; 178.35 GiB, 0.92 of it used, 6 GiB apart. Weights
# are ours but for one: the table's figures for Kimi K2 take 609 GB, where 594 GB are counted and
# 553 GiB were measured on disk; with those TP4 has 0.60 M.
TABLE: list[tuple[str, str, float | None, dict[int, float | None]]] = [
    ("llama-3.3-70b-bf16", "fp8", None, {1: 0.17, 2: 1.2, 4: 3.3, 8: 7.4}),
    ("llama-3.3-70b-bf16", "auto", None, {1: 0.09, 2: 0.6, 4: 1.6, 8: 3.7}),
    ("llama-3.3-70b-fp8", "fp8", None, {1: 0.59, 2: 1.6, 4: 3.7, 8: 7.8}),
    ("llama-3.3-70b-nvfp4", "fp8", None, {1: 0.77, 2: 1.8, 4: 3.9, 8: 8.0}),
    ("llama-3.1-8b-bf16", "auto", None, {1: 1.2, 2: 2.5}),
    ("llama-3.1-405b-fp8", "fp8", None, {1: None, 2: None, 4: 1.05, 8: 3.7}),
    ("qwen3-235b-nvfp4", "fp8", None, {1: 0.37, 2: 2.1, 4: 5.7, 8: 6.4}),
    ("deepseek-r1-fp8", "fp8", None, {1: None, 2: None, 4: None, 8: 2.3}),
    ("deepseek-r1-nvfp4", "fp8", None, {1: None, 2: None, 4: 1.8, 8: 3.3}),
    ("kimi-k2-nvfp4", "fp8", 609e9, {1: None, 2: None, 4: 0.5, 8: 2.6}),
]
B200 = GpuPool("hgx-b200", 8, 178.35 * GIB, 8)


@in_subtests(
    ("name", "dtype", "stated", "tp", "millions"),
    [(name, dtype, stated, tp, millions)
     for name, dtype, stated, row in TABLE for tp, millions in row.items()],
)  # fmt: skip
def test_kv_tokens_of_eight_b200s(
    name: str, dtype: str, stated: float | None, tp: int, millions: float | None
) -> None:
    entry = load.load().models[name]
    weights = memory.weights(known(name), stated or entry.weights_bytes)
    subject = Subject(name, known(name), weights)
    headroom = fit.headroom(subject, B200, Requested(kv_dtype=dtype), Shape(tp=tp))
    if millions is None:
        assert headroom.left < 0
    else:
        assert headroom.tokens / 1e6 == pytest.approx(millions, rel=0.05)


@pytest.mark.parametrize(("tp", "share"), [(1, 1), (2, 1 / 2), (4, 1 / 4), (8, 1 / 4)])
def test_tp_beyond_the_kv_heads_copies_them(tp: int, share: float) -> None:
    qwen = known("qwen3-235b-bf16")
    assert token_bytes(qwen, tp) == token_bytes(qwen) * share


def test_mla_is_copied_on_every_rank() -> None:
    kimi = known("kimi-k2-nvfp4")
    assert token_bytes(kimi, 8) == token_bytes(kimi, 1)
    assert token_bytes(kimi, dtype="fp8_ds_mla") == 61 * 656


def test_window_bounds_half_of_the_layers() -> None:
    oss = known("gpt-oss-120b")
    full = memory.sequence_bytes(oss, 1)
    assert [(one.layers, one.window) for one in oss.keeps if isinstance(one, Cache)] == [
        (18, 128),
        (18, 0),
    ]
    # While a prompt is shorter than window and chunk, both count the same.
    assert memory.sequence_bytes(oss, 100, chunk=2048) == 100 * full
    long = memory.sequence_bytes(oss, 100_000, chunk=0)
    assert long == full / 2 * (100_000 + 128)
    assert long < 100_000 * full


def test_hybrid_keeps_a_constant_state_besides_its_full_layers() -> None:
    qwen = known("qwen3.5-27b-fp8")
    assert caching(qwen) == 16
    # 48 layers x (3 x 10240 BF16 of the convolution + 48 heads x 128 x 128 of FP32).
    state = 48 * (3 * 10240 * 2 + 48 * 128 * 128 * 4)
    assert memory.state_bytes(qwen.keeps, prefix_caching=False) == state
    assert memory.state_bytes(qwen.keeps, 2, prefix_caching=False) == state / 2
    a_token = token_bytes(qwen)
    # A block is as large as a state of one layer: of 4096 tokens the last block is part-filled.
    block = state / 48
    blocks = -(-4096 * a_token / 16 // block)
    assert memory.sequence_bytes(qwen, 4096, prefix_caching=False) == 16 * blocks * block + state
    assert token_bytes(qwen, draft=True) == a_token * 17 / 16


def test_mamba_layers_of_a_pattern_are_counted() -> None:
    nemotron = config(
        model_type="nemotron_h", num_hidden_layers=6,
        hybrid_override_pattern="M-M*-E", mamba_num_heads=64,
        mamba_head_dim=64, ssm_state_size=128, n_groups=8, conv_kernel=4, n_routed_experts=8,
        moe_intermediate_size=1024, num_experts_per_tok=2,
    )  # fmt: skip
    assert caching(nemotron) == 1
    [state] = [one for one in nemotron.keeps if isinstance(one, LayerState)]
    assert (state.layers, state.ssm) == (2, 64 * 64 * 128)
    assert nemotron.experts is not None
    assert nemotron.parameters.routed == 8 * 2 * 8192 * 1024


def test_states_under_prefix_caching_are_two_and_one_for_each_drafted_token() -> None:
    # MambaSpec.max_memory_usage_bytes of vLLM 0.33: 2 + num_speculative_blocks in mode "align".
    qwen = known("qwen3.5-27b-fp8")
    one = memory.state_bytes(qwen.keeps, prefix_caching=False)
    assert memory.state_bytes(qwen.keeps) == 2 * one
    # A drafted token widens the convolution's state as well: 10240 channels of 48 layers.
    wider = one + 48 * 10240 * 2
    assert memory.state_bytes(qwen.keeps, drafted=1) == 3 * wider


@in_subtests(
    ("stated", "weights", "unquantised"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", ()),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", ()),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4",
             "ignore": ["lm_head", "model.layers.0.self_attn*"]},
            "nvfp4", ("attention",),
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            "mxfp4", ("attention",),
        ),
        (
            {"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*"],
             "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
            "int4", ("attention",),
        ),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "fp8", ()),
        (
            {"quant_method": "fp8", "ignored_layers": ["lm_head", "model.layers.0.mlp"]},
            "fp8", ("dense",),
        ),
        # Qwen3.5-27B-GPTQ-Int4.
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {"lm_head": {}, "-:.*attn.*": {}}},
            "int4", ("attention",),
        ),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*mlp.*": {"bits": 8}}}, "int8",
         ("dense",)),
        (
            {"quant_method": "auto-round", "bits": 4,
             "extra_config": {"model.layers.0.self_attn.q_proj": {"bits": 16}}},
            "int4", ("attention",),
        ),
        ({"quant_method": "auto-round", "bits": 4, "extra_config": {".*mlp.*": {}}}, "int4", ()),
    ],
)  # fmt: skip
def test_quantisation_is_read_from_the_config(
    stated: dict[str, Any], weights: str, unquantised: tuple[str, ...]
) -> None:
    parsed = config(quantization_config=stated)
    assert (parsed.weights, (*parsed.parts,)) == (weights, unquantised)


def test_bytes_of_a_weight_include_its_scales() -> None:
    each = memory.WEIGHT_BYTES
    assert (each["nvfp4"], each["mxfp4"], each["fp8"]) == (0.5625, 0.53125, 1.0)
    attention = memory.weights(config(quantization_config={"quant_method": "fp8"})).total
    assert attention == pytest.approx(72.66e9, rel=0.001)


def test_cache_that_the_checkpoint_asks_for_is_the_default() -> None:
    quantised = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    asking = config(quantization_config=quantised)
    assert memory.KV_BYTES[memory.kv_format("auto", asking)] == 1
    assert memory.kv_format("bfloat16", asking) == "bfloat16"


def test_quantisation_is_found_in_each_place_where_it_is_written() -> None:
    stated = {"quant_method": "mxfp4"}
    nested = {"model_type": "some_vl", "text_config": LLAMA | {"quantization_config": stated}}
    assert model_config.parse(nested).weights == "mxfp4"
    beside = {"model_type": "some_vl", "quantization_config": stated, "text_config": LLAMA}
    assert model_config.parse(beside).weights == "mxfp4"
    assert config(compression_config=stated).weights == "mxfp4"


def test_nested_text_config_is_the_model() -> None:
    nested = {"model_type": "some_vl", "vision_config": {}, "text_config": LLAMA}
    assert model_config.parse(nested) == config()


@in_subtests(
    "changed",
    [
        {"num_hidden_layers": None},
        {"hidden_size": "wide"},
        {"layer_types": ["full_attention"]},
        {"layer_types": ["compressed"] * 80},
        {"quantization_config": {"quant_method": "aqlm"}},
        {"quantization_config": {"quant_method": "gptq", "bits": 3}},
        {
            "quantization_config": {
                "quant_method": "gptq",
                "bits": 4,
                "dynamic": {".*mlp.*": {"bits": 2}},
            }
        },
        {"kv_lora_rank": 512},
        {"full_attention_interval": 4},
        {"num_hidden_layers": 10**9},
        {"num_local_experts": 8, "mlp_only_layers": 3, "layer_types": [[]]},
    ],
)
def test_model_that_is_not_understood_is_refused(changed: dict[str, Any]) -> None:
    with raises_message(ModelError):
        model_config.parse(LLAMA | changed)


def test_key_that_changes_sizes_and_is_not_understood_is_refused() -> None:
    unknown = {"num_global_layers": 4, "kv_lora_rank": 512, "moe_latent_size": 1024}
    with raises_message(ModelError):
        model_config.parse(LLAMA | unknown)
    # What is off, or says nothing of sizes, is not in the way.
    off = {"num_global_layers": 0, "kv_lora_rank": None, "rope_theta": 5e5, "chunk_size": 128}
    assert model_config.parse(LLAMA | off) == config()


@in_subtests(
    "changed",
    [{"model_type": "brand_new"}, {"model_type": None}, {"model_type": ["llama"]}],
)
def test_architecture_that_is_not_in_the_table_is_refused(changed: dict[str, Any]) -> None:
    with raises_message(ModelError):
        model_config.parse(LLAMA | changed)


def test_second_file_of_modelopt_counts_where_config_json_says_nothing() -> None:
    stated = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
    beside = {
        "quantization": stated | {"exclude_modules": ["lm_head", "model.layers.3.self_attn*"]}
    }
    shape = model_config.parse(LLAMA, beside)
    assert (shape.weights, shape.kv_dtype) == ("nvfp4", "fp8")
    assert shape.parts["attention"] == {"bf16": 1 / 80, "nvfp4": 79 / 80}
    own = {"quantization_config": {"quant_method": "fp8"}}
    assert model_config.parse(LLAMA | own, beside).weights == "fp8"


@in_subtests(
    ("dtype", "weights"), [("bfloat16", "bf16"), ("torch.float16", "fp16"), ("float32", "bf16")]
)
def test_plain_weights_are_in_the_dtype_that_is_written(dtype: str, weights: str) -> None:
    assert config(torch_dtype=dtype).weights == config(dtype=dtype).weights == weights


@in_subtests("stated", [{"dtype": "int3"}, {"torch_dtype": 16}])
def test_dtype_that_is_not_known_is_refused(stated: dict[str, Any]) -> None:
    with raises_message(ModelError):
        model_config.parse(LLAMA | stated)


def test_exceptions_of_mixed_precision_count_by_layers() -> None:
    layers = {f"model.layers.{n}.mlp.gate_proj": {"quant_algo": "NVFP4"} for n in range(60)}
    layers |= {f"model.layers.{n}.self_attn.q_proj": {"quant_algo": "FP8"} for n in range(80)}
    stated = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    shape = config(quantization_config=stated)
    assert shape.parts == {"dense": {"nvfp4": 0.75, "bf16": 0.25}, "attention": {"fp8": 1.0}}
    assert shape.weights == "nvfp4"


def test_pattern_means_the_modules_that_it_matches() -> None:
    weights = {"num_bits": 4, "type": "float", "group_size": 16}
    groups = {"all": {"targets": [r"re:.*mlp.*(gate|up|down)_proj$"], "weights": weights}}
    stated = {"quant_method": "compressed-tensors", "config_groups": groups}
    shape = config(quantization_config=stated)
    assert shape.parts == {"dense": {"nvfp4": 1.0}}
    mixture = model_config.parse(MIXTRAL | {"quantization_config": stated})
    assert mixture.parts == {"routed": {"nvfp4": 1.0}}
    assert mixture.weights == "nvfp4"


@in_subtests(
    ("pattern", "parts"),
    [
        ("re:.*kv_b_proj$", {"attention"}),
        ("re:^mtp.*", {"draft"}),
        (r"re:.*layers\.80\..*", {"draft"}),
        (r"re:model\.layers\.[0-3]\..*", {"attention", "dense"}),
    ],
)
def test_pattern_of_exceptions_is_of_these_parts(pattern: str, parts: set[str]) -> None:
    stated = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    shape = config(quantization_config=stated | {"ignore": [pattern]}, num_nextn_predict_layers=1)
    assert {*shape.parts} == parts


def test_unknown_number_formats_are_refused() -> None:
    with pytest.raises(ModelError, match="fp3"):
        memory.kv_format("fp3", config())
    with pytest.raises(ModelError, match="int2"):
        memory.weights(replace(config(), weights="int2"))


def test_experts_are_spread_and_the_rest_copied_by_dp() -> None:
    weights = memory.weights(known("deepseek-r1-fp8"))
    spread = weights.a_gpu(tp=1, dp=8, ep=True)
    assert spread == weights.routed / 8 + weights.rest
    assert weights.a_gpu(tp=8) == weights.total / 8


def test_usable_memory_is_a_share_less_the_reserve() -> None:
    assert Memory(178.35 * GIB).usable / GIB == pytest.approx(158.08, abs=0.01)
