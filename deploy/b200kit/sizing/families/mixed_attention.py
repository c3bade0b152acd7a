"""Models whose layers attend in two ways: Llama 4, Gemma 4, MiMo V2, MiniMax M3.

vllm/model_executor/models/llama4.py, gemma4.py, mimo_v2.py; vllm/models/minimax_m3/nvidia/model.py.
"""

from __future__ import annotations

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Cache, Experts, Layer, ModelError, Stack
from b200kit.sizing.families import blocks, transformer

# In Llama 4 each fourth layer sees all tokens, without positions (Llama4TextConfig).
_NO_POSITIONS = 4


def llama4(config: Config) -> Stack:
    """Experts in every layer or each second; chunks of tokens but in each fourth layer."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads, width = config.whole("num_key_value_heads"), config.whole("head_dim")
    layers, step = config.layers(), config.maybe("interleave_moe_layer_step") or 1
    chunk = config.count("attention_chunk_size")
    count, wide = config.whole("num_local_experts"), config.whole("intermediate_size")
    experts = Experts(count, min(config.whole("num_experts_per_tok"), count), wide)
    mixed = blocks.mixture(hidden, count, wide, wide)
    dense = blocks.dense(hidden, config.whole("intermediate_size_mlp"))
    full = blocks.attention(hidden, heads, kv_heads, width)
    local = blocks.attention(hidden, heads, kv_heads, width, window=chunk)
    positions = config.listed("no_rope_layers") or [(n + 1) % _NO_POSITIONS for n in range(layers)]
    if len(positions) != layers:
        raise ModelError(f"config.json: no_rope_layers are not of {layers} layers")
    stack = tuple(
        (local if positions[n] else full) + (dense if (n + 1) % step else mixed)
        for n in range(layers)
    )
    return Stack(stack, heads, kv_heads, experts, tied=config.flag("tie_word_embeddings"))


def gemma4(config: Config) -> Stack:
    """Wider, fewer heads in layers that see all; a dense block beside the experts."""
    if config.maybe("hidden_size_per_layer_input") or config.maybe("num_kv_shared_layers"):
        raise ModelError("config.json: embeddings or caches shared by layers are not known here")
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads, width = config.whole("num_key_value_heads"), config.whole("head_dim")
    window, layers = config.whole("sliding_window"), config.layers()
    kinds = transformer.layer_kinds(config, layers, window)
    mixers = {
        "window": blocks.attention(hidden, heads, kv_heads, width, window=window),
        "full": blocks.attention(
            hidden,
            heads,
            config.maybe("num_global_key_value_heads") or kv_heads,
            config.maybe("global_head_dim") or width,
            keys_are_values=config.flag("attention_k_eq_v"),
        ),
    }
    feed = blocks.dense(hidden, config.whole("intermediate_size"))
    experts, count = None, config.maybe("num_experts")
    if config.flag("enable_moe_block") and count:
        wide = config.whole("moe_intermediate_size", "expert_intermediate_size")
        feed += blocks.mixture(hidden, count, wide)
        experts = Experts(count, min(config.whole("top_k_experts"), count), wide)
    stack = tuple(mixers[kind] + feed for kind in kinds)
    return Stack(stack, heads, kv_heads, experts, tied=config.flag("tie_word_embeddings", True))


def mimo_v2(config: Config) -> Stack:
    """Windows in most layers, with other heads than where all is seen."""
    hidden, layers = config.whole("hidden_size"), config.layers()
    heads, kv_heads = config.whole("num_attention_heads"), config.whole("num_key_value_heads")
    full = blocks.attention(
        hidden, heads, kv_heads, config.whole("head_dim"), config.whole("v_head_dim")
    )
    window = blocks.attention(
        hidden,
        config.whole("swa_num_attention_heads"),
        config.whole("swa_num_key_value_heads"),
        config.whole("swa_head_dim"),
        config.whole("swa_v_head_dim"),
        window=config.whole("sliding_window"),
    )
    config.maybe("attention_chunk_size")
    pattern = config.listed("hybrid_layer_pattern") or []
    feeds, experts = transformer.feed_forwards(config, hidden, layers)
    if len(pattern) != layers:
        raise ModelError(f"config.json: hybrid_layer_pattern is not of {layers} layers")
    mixers = [window if windowed else full for windowed in pattern]
    stack = tuple(mixer + feed for mixer, feed in zip(mixers, feeds, strict=True))
    tied = config.flag("tie_word_embeddings")
    return Stack(stack, heads, kv_heads, experts, tied=tied)


def minimax_m3(config: Config) -> Stack:
    """Sparse attention in most layers: the cache of all tokens, and an index of BF16 keys."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads, width = config.whole("num_key_value_heads"), config.whole("head_dim")
    layers, sparse = config.layers(), config.section("sparse_attention_config")
    if sparse is None:
        raise ModelError("config.json has no sparse_attention_config")
    index, index_heads = sparse.whole("sparse_index_dim"), sparse.whole("sparse_num_index_heads")
    picks = sparse.listed("sparse_attention_freq") or []
    if len(picks) != layers:
        raise ModelError(f"config.json: sparse_attention_freq is not of {layers} layers")
    plain = blocks.attention(hidden, heads, kv_heads, width)
    # MiniMaxM3IndexerCache: BF16 unless attention-config asks for FP8.
    index_layer = Layer(
        attention=hidden * index * (index_heads + 1), keeps=(Cache(fixed=2 * index),)
    )
    feeds, experts = transformer.feed_forwards(config, hidden, layers)
    mixers = [plain + index_layer if pick else plain for pick in picks]
    stack = tuple(mixer + feed for mixer, feed in zip(mixers, feeds, strict=True))
    drafts = (plain + feeds[-1],) * transformer.draft_layers(config)
    tied = config.flag("tie_word_embeddings")
    return Stack(stack, heads, kv_heads, experts, drafts=drafts, tied=tied)
