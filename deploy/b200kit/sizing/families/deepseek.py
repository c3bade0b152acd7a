"""Latent attention with a mixture: DeepSeek V2 to V3.2, Kimi K2, GLM-5.

vllm/model_executor/models/deepseek_v2.py and vllm/models/deepseek_v32/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Layer, ModelError, Stack
from b200kit.sizing.families import blocks, transformer

_KINDS = {"full_attention", "deepseek_sparse_attention"}


def build(config: Config) -> Stack:
    """The layers of a model of this family."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    config.maybe("num_key_value_heads", "head_dim")
    if {*map(str, config.listed("layer_types") or [])} - _KINDS:
        raise ModelError("config.json: a layer of layer_types is not known here")
    layers = config.layers()
    plain = blocks.latent(config, hidden, heads)
    picking = plain
    if config.maybe("index_head_dim"):
        picking += blocks.indexer(config, hidden, config.whole("q_lora_rank"))
    own = has_indexer(config, layers)
    feeds, experts = transformer.feed_forwards(config, hidden, layers)
    stack = tuple((picking if own(n) else plain) + feed for n, feed in enumerate(feeds))
    drafts: tuple[Layer, ...] = (picking + feeds[-1],) * transformer.draft_layers(config)
    tied = config.flag("tie_word_embeddings")
    return Stack(stack, heads, heads, experts, latent=True, drafts=drafts, tied=tied)


def has_indexer(config: Config, layers: int) -> Callable[[int], bool]:
    """Whether a layer has an indexer of its own, or uses the choice of one before it.

    After `skip_topk` of vllm/models/deepseek_v32/attention.py; draft layers always have one.
    """
    kinds = config.listed("indexer_types")
    pattern = config.word("index_topk_pattern")
    every, offset = config.maybe("index_topk_freq") or 1, config.maybe("index_skip_topk_offset")
    first = 2 if offset is None else offset
    if kinds is not None and len(kinds) == layers:
        return lambda n: kinds[n] == "full"
    if pattern:
        return lambda n: pattern[n : n + 1] != "S"
    return lambda n: max(n - first + 1, 0) % every == 0
