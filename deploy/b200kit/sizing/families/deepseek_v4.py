"""DeepSeek-V4: a window in each layer, and in most a cache of compressed tokens.

vllm/models/deepseek_v4/attention.py, compressor.py, and DeepseekV4SWACache of
vllm/v1/attention/backends/mla/sparse_swa.py. On B200 vLLM takes FlashMLA unless told otherwise
(`_select_dsv4_attn_cls`), and with it `fp8_ds_mla`: 448 FP8, 64 BF16 and 8 of scales, 584 bytes.
"""

from __future__ import annotations

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Cache, Experts, Layer, ModelError, Stack
from b200kit.sizing.families import blocks, transformer

# How many tokens share an entry, where the groups of a compressor overlap and where they do not.
_OVERLAPPING, _APART = 4, 128
# Tokens of a block, and of what is kept until a group is whole (CompressorStateCache).
_BLOCK, _WINDOW_BLOCK = 256, 64
_STATE_BLOCK = {_OVERLAPPING: 4, _APART: 8}
_PACKED, _ALIGNED = 584, 576


def build(config: Config) -> Stack:
    """The layers of a model of this family."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    config.maybe("num_key_value_heads", "intermediate_size")
    count, width = config.whole("n_routed_experts"), config.whole("moe_intermediate_size")
    shared = config.count("n_shared_experts") * width
    feed = blocks.mixture(hidden, count, width, shared) + _streams(config, hidden)
    ratios = _ratios(config)
    stack = [_mixer(config, hidden, heads, ratio) + feed for ratio in ratios]
    stack[0] += Layer(keeps=pool(config, ratios))
    # The window of a draft layer fills up a group of the pool.
    drafts = (_mixer(config, hidden, heads, 0) + feed,) * transformer.draft_layers(config)
    experts = Experts(count, min(config.whole("num_experts_per_tok"), count), width)
    config.word("expert_dtype")
    tied = config.flag("tie_word_embeddings")
    return Stack(tuple(stack), heads, 1, experts, latent=True, drafts=drafts, tied=tied)


def _ratios(config: Config) -> list[int]:
    """Tokens that share an entry, layer by layer; 0 where a layer has its window alone."""
    layers, stated = config.layers(), config.listed("compress_ratios") or []
    unknown = [each for each in stated if each not in (0, 1, _OVERLAPPING, _APART)]
    if len(stated) < layers or unknown:
        what = f"{unknown[0]!r} is not known here" if unknown else f"not of {layers} layers"
        raise ModelError(f"config.json: compress_ratios: {what}")
    return stated[:layers]


def _streams(config: Config, hidden: int) -> Layer:
    """Weights that mix the parallel residual streams, before attention and before experts."""
    streams = config.whole("hc_mult")
    return Layer(dense=2 * (2 + streams) * streams * streams * hidden)


def _mixer(config: Config, hidden: int, heads: int, ratio: int) -> Layer:
    """Weights of one layer's attention, with its compressor and indexer."""
    width, index = config.whole("head_dim"), config.whole("index_head_dim")
    config.maybe("qk_rope_head_dim", "qk_nope_head_dim")
    q_rank, out_rank = config.whole("q_lora_rank"), config.whole("o_lora_rank")
    weights = q_rank * (hidden + heads * width) + hidden * width
    weights += heads * width * out_rank + config.whole("o_groups") * out_rank * hidden
    if ratio == _APART:
        weights += 2 * hidden * width
    if ratio == _OVERLAPPING:
        # Its index has a compressor of its own, and reads the queries' latent vector.
        weights += 4 * hidden * (width + index)
        weights += config.whole("index_n_heads") * (q_rank * index + hidden)
    return Layer(attention=weights)


def pool(config: Config, ratios: list[int]) -> tuple[Cache, ...]:
    """What a sequence keeps: blocks of one size for all groups of layers, drawn from one pool.

    `_get_packed_kv_cache_groups` of vllm/v1/core/kv_cache_planning.py: entries and index make the
    widest group, and blocks of windows and compressors' states take as much.
    """
    layers, window, width = len(ratios), config.whole("sliding_window"), config.whole("head_dim")
    fine, coarse = ratios.count(_OVERLAPPING), ratios.count(_APART)
    rows, wide = _BLOCK // _OVERLAPPING, _BLOCK // _APART
    index = config.whole("index_head_dim") + 4
    block = Cache(
        numbers=(fine * rows + coarse * wide) * width,
        packed=fine * _aligned(rows * _PACKED) + coarse * _aligned(wide * _PACKED),
        fixed=fine * _aligned(rows * index),
        narrow=True,
        ratio=_BLOCK,
    )
    groups = -(-layers // _repeats(fine, coarse, layers))
    states = ((_OVERLAPPING, 2 * _OVERLAPPING), (_APART, _APART))
    return (
        block,
        _replaced(block, _WINDOW_BLOCK / groups, window),
        *(_replaced(block, _STATE_BLOCK[ratio], kept) for ratio, kept in states),
    )


def _replaced(block: Cache, tokens: float, window: int) -> Cache:
    return Cache(
        numbers=block.numbers,
        packed=block.packed,
        fixed=block.fixed,
        narrow=True,
        ratio=tokens,
        window=window,
    )


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _repeats(fine: int, coarse: int, layers: int) -> int:
    """Layers of a group, so that the groups of all kinds are filled best (`_approximate_gcd`)."""
    least = max(fine, 1)
    return min(
        range(least, max(least, layers) + 1),
        key=lambda size: (sum(-n % size for n in (fine, coarse, layers)), -size),
    )
