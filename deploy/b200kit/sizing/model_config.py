"""What a model's config.json says about its size: layers, heads, experts, states, number formats.

`parse` takes the parsed config.json (Hugging Face form, a nested `text_config` included) and gives
a `Dimensions`, or raises ModelError naming the missing key. Nothing is guessed: a model whose
attention is not understood is refused, because a wrong size is worse than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


class ModelError(ValueError):
    """A config.json that sizes cannot be computed from; the text says why, in one line."""


@dataclass(frozen=True)
class Mla:
    """Multi-head latent attention: one compressed vector a token, the same on each rank."""

    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: how many a layer has, how many of them a token uses, and their widths."""

    count: int
    active: int
    width: int
    shared_width: int
    layers: int


@dataclass(frozen=True)
class Recurrent:
    """Mamba2 or gated delta net layers: a constant state a sequence, whatever its length.

    *conv* and *ssm* are elements a layer and sequence, *inputs* and *outputs* weights of a layer.
    """

    layers: int
    conv: int
    ssm: int
    ssm_bytes: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class Dimensions:
    """The dimensions of a model that decide its bytes."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    dense_width: int
    max_length: int
    attention_layers: int
    tied: bool = False
    gated_attention: bool = False
    mlp_matrices: int = 3
    windowed_layers: int = 0
    window: int = 0
    draft_layers: int = 0
    mla: Mla | None = None
    experts: Experts | None = None
    recurrent: Recurrent | None = None
    weights: str = "bf16"
    unquantised: tuple[str, ...] = ()
    kv_dtype: str = "auto"

    @property
    def moe(self) -> bool:
        """Whether it is a mixture of experts."""
        return self.experts is not None


def parse(config: Mapping[str, Any]) -> Dimensions:
    """The shape that a parsed config.json describes."""
    nested = config.get("text_config") or config.get("llm_config")
    text = {**config, **nested} if isinstance(nested, Mapping) else dict(config)
    layers, hidden = _whole(text, "num_hidden_layers"), _whole(text, "hidden_size")
    heads = _whole(text, "num_attention_heads")
    kinds = _kinds(text, layers)
    experts = _experts(text, layers)
    weights, unquantised = _quantisation(text)
    return Dimensions(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_maybe(text, "num_key_value_heads") or heads,
        head_dim=_maybe(text, "head_dim") or hidden // heads,
        vocabulary=_whole(text, "vocab_size"),
        dense_width=_dense_width(text, experts),
        max_length=_whole(text, "max_position_embeddings", "max_seq_len", "seq_length"),
        attention_layers=kinds.count("full") + kinds.count("window"),
        tied=bool(text.get("tie_word_embeddings", False)),
        gated_attention=bool(text.get("attn_output_gate", False)),
        mlp_matrices=2 if text.get("mlp_hidden_act") == "relu2" else 3,
        windowed_layers=kinds.count("window"),
        window=(_maybe(text, "sliding_window") or 0) if "window" in kinds else 0,
        draft_layers=_maybe(text, "num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
        mla=_mla(text),
        experts=experts,
        recurrent=_recurrent(text, kinds.count("recurrent"), hidden),
        weights=weights,
        unquantised=unquantised,
        kv_dtype=_kv_dtype(text),
    )


# No dimension of a model is as large: ten million, which is the longest context known.
_MOST = 10_000_001


def _whole(text: Mapping[str, Any], *names: str) -> int:
    found = _maybe(text, *names)
    if found is None:
        raise ModelError(f"config.json has no {' or '.join(names)}")
    return found


def _maybe(text: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = text.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            raise ModelError(f"config.json: {name} is {value!r}, not a whole number")
        return value or None
    return None


def _list(section: Mapping[str, Any], name: str) -> list[Any]:
    value = section.get(name)
    return value if isinstance(value, list) else []


_LAYER_KINDS = {
    "full_attention": "full",
    "attention": "full",
    "sliding_attention": "window",
    "linear_attention": "recurrent",
    "mamba": "recurrent",
    "mlp": "other",
    "moe": "other",
}
# Nemotron-H writes its layers as a string: M Mamba, * attention, - and E feed-forward.
_PATTERN = {"M": "recurrent", "*": "full", "-": "other", "E": "other"}


def _kinds(text: Mapping[str, Any], layers: int) -> list[str]:
    """What each layer does with the tokens before: full, window, recurrent or other."""
    listed, pattern = text.get("layer_types"), text.get("hybrid_override_pattern")
    if isinstance(listed, list):
        return _named(listed, _LAYER_KINDS, layers)
    if isinstance(pattern, str):
        return _named(pattern, _PATTERN, layers)
    every = _maybe(text, "full_attention_interval")
    if every:
        return ["full" if (n + 1) % every == 0 else "recurrent" for n in range(layers)]
    if not _maybe(text, "sliding_window") or text.get("use_sliding_window") is False:
        return ["full"] * layers
    every = _maybe(text, "sliding_window_pattern")
    return ["full" if every and (n + 1) % every == 0 else "window" for n in range(layers)]


def _named(listed: Iterable[Any], known: Mapping[str, str], layers: int) -> list[str]:
    kinds = []
    for name in listed:
        if str(name) not in known:
            raise ModelError(f"config.json: a layer of type {name!r} is not known here")
        kinds.append(known[str(name)])
    if len(kinds) != layers:
        raise ModelError(f"config.json lists {len(kinds)} layers, num_hidden_layers is {layers}")
    return kinds


def _mla(text: Mapping[str, Any]) -> Mla | None:
    rank = _maybe(text, "kv_lora_rank")
    if rank is None:
        return None
    return Mla(
        kv_rank=rank,
        rope_dim=_whole(text, "qk_rope_head_dim"),
        nope_dim=_whole(text, "qk_nope_head_dim"),
        value_dim=_whole(text, "v_head_dim"),
        query_rank=_maybe(text, "q_lora_rank"),
    )


_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")


def _experts(text: Mapping[str, Any], layers: int) -> Experts | None:
    count = _maybe(text, "n_routed_experts", "num_local_experts", "num_experts")
    if count is None:
        return None
    width = _whole(text, "moe_intermediate_size", "intermediate_size")
    shared = _maybe(text, "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size")
    dense = _maybe(text, "first_k_dense_replace") or len(_list(text, "mlp_only_layers"))
    step = _maybe(text, "decoder_sparse_step", "moe_layer_freq") or 1
    pattern = text.get("hybrid_override_pattern")
    expert_layers = pattern.count("E") if isinstance(pattern, str) else (layers - dense) // step
    return Experts(
        count=count,
        active=min(_whole(text, *_ACTIVE), count),
        width=width,
        shared_width=shared or (_maybe(text, "n_shared_experts") or 0) * width,
        layers=expert_layers,
    )


def _dense_width(text: Mapping[str, Any], experts: Experts | None) -> int:
    if experts and experts.layers:
        return _maybe(text, "intermediate_size") or 0
    return _whole(text, "intermediate_size")


def _recurrent(text: Mapping[str, Any], layers: int, hidden: int) -> Recurrent | None:
    if not layers:
        return None
    # Both vLLM and the reference keep the recurrent state in what mamba_ssm_dtype says.
    wide = 4 if text.get("mamba_ssm_dtype", "float32") == "float32" else 2
    if "linear_num_value_heads" in text:
        key = _whole(text, "linear_num_key_heads") * _whole(text, "linear_key_head_dim")
        value_heads = _whole(text, "linear_num_value_heads")
        value = value_heads * _whole(text, "linear_value_head_dim")
        mixed = 2 * key + value
        state = value * _whole(text, "linear_key_head_dim")
        kernel = _whole(text, "linear_conv_kernel_dim")
        inputs = hidden * (mixed + value + 2 * value_heads) + mixed * kernel
        return Recurrent(layers, (kernel - 1) * mixed, state, wide, inputs, value * hidden)
    heads, width = _whole(text, "mamba_num_heads"), _whole(text, "mamba_head_dim")
    size, groups = _whole(text, "ssm_state_size"), _whole(text, "n_groups")
    kernel, inner = _whole(text, "conv_kernel"), heads * width
    mixed = inner + 2 * groups * size
    inputs = hidden * (mixed + inner + heads) + mixed * kernel
    return Recurrent(layers, (kernel - 1) * mixed, inner * size, wide, inputs, inner * hidden)


# Parts of a model that a checkpoint may leave in BF16, and how its list of exceptions names them.
_UNQUANTISED = {
    "attention": ("self_attn", "attn"),
    "shared": ("shared_expert",),
    "dense": (".mlp.gate_proj", ".mlp.down_proj", "mlp.up_proj"),
    "draft": ("mtp", "nextn", "eh_proj"),
}


def _quantisation(text: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Name of the weights' number format, and the parts left in BF16."""
    stated = text.get("quantization_config")
    if not isinstance(stated, Mapping):
        return "bf16", ()
    keys = ("ignore", "exclude_modules", "modules_to_not_convert")
    names = " ".join(str(name) for key in keys for name in _list(stated, key))
    unquantised = tuple(
        part for part, words in _UNQUANTISED.items() if any(word in names for word in words)
    )
    return _format(stated), unquantised


def _format(stated: Mapping[str, Any]) -> str:
    method = str(stated.get("quant_method", "")).lower()
    words = " ".join(str(stated.get(key, "")) for key in ("quant_algo", "format")).lower()
    if method == "mxfp4" or "mxfp4" in words:
        return "mxfp4"
    if "nvfp4" in words or "fp4" in method:
        return "nvfp4"
    if method == "fp8" or "fp8" in words or "float-quantized" in words:
        return "fp8-block" if stated.get("weight_block_size") else "fp8"
    if _bits(stated) == 4:
        return "int4"
    if _bits(stated) == 8:
        return "fp8"
    raise ModelError(f"config.json: quantisation {method or words or stated!r} is not known here")


def _bits(stated: Mapping[str, Any]) -> object:
    groups = stated.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights.get("num_bits") if isinstance(weights, Mapping) else stated.get("bits")


def _kv_dtype(text: Mapping[str, Any]) -> str:
    stated = text.get("quantization_config")
    algorithm = stated.get("kv_cache_quant_algo") if isinstance(stated, Mapping) else None
    return str(algorithm).lower() if algorithm else "auto"
