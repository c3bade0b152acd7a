"""Recurrent layers beside attention: Nemotron-H and Nemotron 3, Kimi Linear and Kimi K3.

vllm/model_executor/models/nemotron_h.py; vllm/models/kimi_k3/nvidia/kda.py and model.py.
"""

from __future__ import annotations

from b200kit.sizing.config_keys import Config
from b200kit.sizing.dimensions import Layer, LayerState, ModelError, Stack
from b200kit.sizing.families import blocks, transformer

# Nemotron-H writes its layers as letters or, later, as words.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def nemotron(config: Config) -> Stack:
    """The layers of Nemotron-H: each mixes tokens or feeds forward, never both."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    kv_heads = config.maybe("num_key_value_heads") or heads
    width = config.maybe("attention_head_dim", "head_dim") or hidden // heads
    kinds = _kinds(config, "hybrid_override_pattern", "layers_block_type")
    stated = config.maybe("num_hidden_layers")
    if not kinds or stated not in (None, len(kinds)):
        raise ModelError(f"config.json lists {len(kinds)} layers, num_hidden_layers is {stated}")
    known: dict[str, Layer] = {"attention": blocks.attention(hidden, heads, kv_heads, width)}
    if "mamba" in kinds:
        known["mamba"] = blocks.mamba2(config, hidden)
    if "mlp" in kinds:
        wide = config.whole("intermediate_size")
        known["mlp"] = blocks.dense(hidden, wide, 2)
    experts = None
    if config.maybe("n_routed_experts"):
        feeds, experts = transformer.feed_forwards(config, hidden, 1, matrices=2)
        known["moe"] = feeds[0]
    drafted = _kinds(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    layers = _layers(kinds, known)
    draft = sum(_layers(drafted, known), start=Layer())
    drafts = (draft,) * (transformer.draft_layers(config) if drafted else 0)
    tied = config.flag("tie_word_embeddings")
    return Stack(layers, heads, kv_heads, experts, drafts=drafts, tied=tied)


def _kinds(config: Config, letters: str, words: str) -> list[str]:
    listed = config.listed(words)
    if listed is not None:
        return [str(word) for word in listed]
    return [_LETTERS.get(letter, letter) for letter in config.word(letters)]


def _layers(kinds: list[str], known: dict[str, Layer]) -> tuple[Layer, ...]:
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        raise ModelError(f"config.json: a layer of type {unknown[0]!r} is not known here")
    return tuple(known[kind] for kind in kinds)


def kimi(config: Config) -> Stack:
    """The layers of Kimi Linear: delta attention by channel, latent attention in every fourth."""
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    config.maybe("num_key_value_heads", "head_dim")
    layers, linear = config.layers(), config.section("linear_attn_config")
    if linear is None:
        raise ModelError("config.json has no linear_attn_config")
    full = blocks.latent(config, hidden, heads, config.flag("mla_use_output_gate"))
    delta = _delta(linear, hidden)
    whole = linear.listed("full_attn_layers") or []
    if not all(isinstance(n, int) and 0 < n <= layers for n in whole):
        raise ModelError(f"config.json: full_attn_layers are not of {layers} layers")
    feeds, experts = transformer.feed_forwards(config, hidden, layers)
    stack = tuple((full if n + 1 in whole else delta) + feed for n, feed in enumerate(feeds))
    drafts = (full + feeds[-1],) * transformer.draft_layers(config)
    tied = config.flag("tie_word_embeddings")
    return Stack(stack, heads, heads, experts, latent=True, drafts=drafts, tied=tied)


def _delta(linear: Config, hidden: int) -> Layer:
    """One layer of delta attention (kda_state_shape; its state is float32 by default)."""
    heads, width = linear.whole("num_heads"), linear.whole("head_dim")
    inner, kernel = heads * width, linear.whole("short_conv_kernel_size")
    gate = hidden * inner if linear.flag("use_full_rank_gate") else width * (hidden + inner)
    decay = width * (hidden + inner) + hidden * heads
    weights = 4 * hidden * inner + gate + decay + 3 * inner * kernel
    state = LayerState(channels=3 * inner, kernel=kernel, ssm=inner * width)
    return Layer(attention=weights, keeps=(state,), cuts=(("attention", inner),))
