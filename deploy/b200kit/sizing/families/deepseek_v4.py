"""DeepSeek-V4: a window in each layer, and in most a cache of compressed tokens.

vllm/models/deepseek_v4/attention.py, compressor.py, and DeepseekV4SWACache of
vllm/v1/attention/backends/mla/sparse_swa.py. On B200 vLLM takes FlashMLA unless told otherwise
(`_select_dsv4_attn_cls`), and with it `fp8_ds_mla`: 448 FP8, 64 BF16 and 8 of scales, 584 bytes.
"""

from __future__ import annotations

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Cache, Experts, Layer, ModelError, Stack
from b200kit.sizing.families import blocks, transformer

_PACKED = 584
# A compressor keeps keys and scores in float32 for one group, or two where groups overlap.
_OVERLAPPING, _APART = 4, 128


def build(config: Config) -> Stack:
    """The layers of a model of this family."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    config.maybe("num_key_value_heads", "intermediate_size")
    count, width = config.whole("n_routed_experts"), config.whole("moe_intermediate_size")
    shared = config.count("n_shared_experts") * width
    feed = blocks.mixture(hidden, count, width, shared) + _streams(config, hidden)
    layers = config.layers()
    ratios = (config.listed("compress_ratios") or [])[:layers]
    if len(ratios) != layers:
        raise ModelError(f"config.json: compress_ratios are not of {layers} layers")
    stack = tuple(_mixer(config, hidden, heads, ratio) + feed for ratio in ratios)
    drafts = (_mixer(config, hidden, heads, 0) + feed,) * transformer.draft_layers(config)
    experts = Experts(count, min(config.whole("num_experts_per_tok"), count))
    config.word("expert_dtype")
    tied = config.flag("tie_word_embeddings")
    return Stack(stack, heads, 1, experts, latent=True, drafts=drafts, tied=tied)


def _streams(config: Config, hidden: int) -> Layer:
    """Weights that mix the parallel residual streams, before attention and before experts."""
    streams = config.whole("hc_mult")
    return Layer(dense=2 * (2 + streams) * streams * streams * hidden)


def _mixer(config: Config, hidden: int, heads: int, ratio: object) -> Layer:
    """One layer's attention, with its compressor and indexer."""
    width, window = config.whole("head_dim"), config.whole("sliding_window")
    config.maybe("qk_rope_head_dim", "qk_nope_head_dim")
    q_rank, out_rank = config.whole("q_lora_rank"), config.whole("o_lora_rank")
    queries = q_rank * (hidden + heads * width) + hidden * width
    outputs = heads * width * out_rank + config.whole("o_groups") * out_rank * hidden
    kept = Cache(numbers=width, window=window, packed=_PACKED, narrow=True)
    plain = Layer(attention=queries + outputs, keeps=(kept,))
    if ratio in (0, 1):
        return plain
    if ratio not in (_OVERLAPPING, _APART) or not isinstance(ratio, int):
        raise ModelError(f"config.json: {ratio!r} in compress_ratios is not known here")
    entries = Cache(numbers=width, ratio=ratio, packed=_PACKED, narrow=True)
    whole = plain + Layer(keeps=(entries,)) + _compressor(hidden, width, ratio)
    if ratio != _OVERLAPPING:
        return whole
    index = blocks.indexer(config, hidden, q_rank, ratio)
    # Its keys come from its own compressor, not from a projection of each token.
    twice = Layer(attention=-hidden * config.whole("index_head_dim"))
    return whole + index + twice + _compressor(hidden, config.whole("index_head_dim"), ratio)


def _compressor(hidden: int, width: int, ratio: int) -> Layer:
    """Its two projections, and what it keeps until a group is whole (CompressorStateCache)."""
    groups = 2 if ratio == _OVERLAPPING else 1
    state = Cache(fixed=2 * groups * width * 4, window=groups * ratio)
    return Layer(attention=2 * hidden * groups * width, keeps=(state,))
