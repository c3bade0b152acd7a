"""Grouped queries, windows, delta nets, and feed-forward blocks or mixtures: most models.

vllm/model_executor/models/llama.py, qwen3_moe.py, qwen3_5.py, gpt_oss.py, minimax_m2.py and others.
"""

from __future__ import annotations

from collections.abc import Callable

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Experts, Layer, ModelError, Stack
from b200kit.sizing.families import blocks

_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "linear_attention": "recurrent",
}
_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token")
_COUNT = ("n_routed_experts", "num_local_experts", "num_experts")


def build(config: Config) -> Stack:
    """The layers of a model of this family."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads = config.maybe("num_key_value_heads") or heads
    width = config.maybe("head_dim") or hidden // heads
    window = config.count("sliding_window")
    kinds = layer_kinds(config, config.layers(), window)
    # Qwen3NextAttention of vLLM has a gate unless config.json says otherwise.
    gated = config.flag("attn_output_gate", "recurrent" in kinds)
    mixers = {
        "full": blocks.attention(hidden, heads, kv_heads, width, gated=gated),
        "window": blocks.attention(hidden, heads, kv_heads, width, window=window, gated=gated),
    }
    if "recurrent" in kinds:
        mixers["recurrent"] = blocks.delta_net(config, hidden)
    feeds, experts = feed_forwards(config, hidden, len(kinds))
    layers = tuple(mixers[kind] + feed for kind, feed in zip(kinds, feeds, strict=True))
    drafts = (mixers["full"] + feeds[-1],) * draft_layers(config)
    tied = config.flag("tie_word_embeddings")
    return Stack(layers, heads, kv_heads, experts, drafts=drafts, tied=tied)


def draft_layers(config: Config) -> int:
    """How many layers of the checkpoint draft further tokens."""
    if not config.flag("use_mtp", True):
        return 0
    deep = config.maybe("mtp_transformer_layers") or 1
    modules = config.count("num_mtp_modules")
    return config.count("num_nextn_predict_layers", "mtp_num_hidden_layers") or modules * deep


def layer_kinds(config: Config, layers: int, window: int) -> list[str]:
    """What each layer does with the tokens before: full, window or recurrent."""
    listed = config.listed("layer_types")
    every = config.maybe("full_attention_interval")
    pattern = config.maybe("sliding_window_pattern")
    full_first = config.count("max_window_layers")
    used = config.flag("use_sliding_window", True)
    if any(kind != 1 for kind in config.listed("attn_type_list") or []):
        raise ModelError("config.json: a layer of attn_type_list is not known here")
    if listed is not None:
        return _named(listed, layers)
    if every:
        return ["full" if (n + 1) % every == 0 else "recurrent" for n in range(layers)]
    if not window or not used:
        return ["full"] * layers
    if pattern:
        return ["full" if (n + 1) % pattern == 0 else "window" for n in range(layers)]
    return ["full" if n < full_first else "window" for n in range(layers)]


def _named(listed: list[object], layers: int) -> list[str]:
    unknown = [name for name in listed if str(name) not in _KINDS]
    if unknown:
        raise ModelError(f"config.json: a layer of type {unknown[0]!r} is not known here")
    if len(listed) != layers:
        raise ModelError(f"config.json lists {len(listed)} layers, num_hidden_layers is {layers}")
    return [_KINDS[str(name)] for name in listed]


def feed_forwards(
    config: Config, hidden: int, layers: int, matrices: int = 3
) -> tuple[list[Layer], Experts | None]:
    """What each layer does after mixing tokens, and its experts where there are any."""
    count = config.maybe(*_COUNT)
    if count is None:
        width = config.whole("intermediate_size")
        return [blocks.dense(hidden, width, matrices)] * layers, None
    width = config.whole("moe_intermediate_size", "intermediate_size")
    experts = Experts(count, min(config.whole(*_ACTIVE), count), width)
    narrow = config.maybe("moe_latent_size", "routed_expert_hidden_size")
    shared = _shared_width(config, width)
    mixed = blocks.mixture(hidden, count, width, shared, matrices=matrices, narrow=narrow)
    dense_width = config.count("dense_intermediate_size", "intermediate_size") or width
    dense = blocks.dense(hidden, dense_width, matrices)
    sparse = is_sparse(config, layers)
    return [mixed if sparse(n) else dense for n in range(layers)], experts


def _shared_width(config: Config, width: int) -> int:
    number = config.count("n_shared_experts", "num_shared_experts")
    stated = config.maybe(
        "moe_shared_expert_intermediate_size",
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
    )
    return stated or number * width


def is_sparse(config: Config, layers: int) -> Callable[[int], bool]:
    """Whether a layer, by its number from 0, has experts."""
    listed = config.listed("mlp_layer_types")
    frequency = config.listed("moe_layer_freq") if config.is_list("moe_layer_freq") else None
    names = ("decoder_sparse_step", *(() if frequency else ("moe_layer_freq",)))
    step = config.maybe(*names)
    dense = config.count("first_k_dense_replace")
    only = config.listed("mlp_only_layers") or []
    for each in (listed, frequency):
        if each is not None and len(each) != layers:
            raise ModelError(f"config.json lists {len(each)} layers, and there are {layers}")
    if listed is not None:
        return lambda n: listed[n] == "sparse"
    if frequency is not None:
        return lambda n: bool(frequency[n])
    if step is None or step == 1:
        return lambda n: n >= dense and n not in only
    return lambda n: n >= dense and n not in only and (n + 1) % step == 0
