"""Number formats of a checkpoint, from every place where they are written.

config.json, its text_config, the `hf_quant_config.json` that ModelOpt writes beside it, groups of
compressed-tensors, `torch_dtype` or `dtype`. Names after vllm/model_executor/layers/quantization
of vLLM 0.33.0: modelopt.py (QUANT_ALGOS), compressed_tensors/, fp8.py, mxfp4.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from b200kit.node.lib.readings import short
from b200kit.sizing.dimensions import Formats, Layer, ModelError
from b200kit.sizing.weight_blocks import BLOCKS

# How a module's name tells its part, the first that is found; "" has hardly any weights, or is in
# BF16 in each checkpoint.
_MODULES = tuple(
    (re.compile(pattern), part)
    for pattern, part in (
        (
            r"norm|bias|rotary|vision|visual|mm_projector|multi_modal|conv1d|indexer|audio|eh_proj",
            "",
        ),
        (r"\bmtp|nextn", "draft"),
        (r"shared_expert", "shared"),
        (r"\bexperts\b", "routed"),
        (r"router|[._]gate$|\bgate\.", ""),
        (r"attn|attention|mixer", "attention"),
        (r"mlp|ffn|feed_forward|_proj", "dense"),
    )
)
# Names of modules that patterns of compressed-tensors are tried on, by part.
_SAMPLES = {
    "attention": (
        *(f"self_attn.{name}_proj" for name in ("q", "k", "o", "kv_b")),
        "linear_attn.in_proj_qkv",
        "attn.wq_b",
        "mixer.in_proj",
    ),
    "dense": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "shared": ("mlp.shared_experts.up_proj", "ffn.shared_experts.up_proj"),
    "routed": ("mlp.experts.0.up_proj", "ffn.experts.0.up_proj", "block_sparse_moe.experts.0.w1"),
}
_DRAFTS = ("mtp.layers.0.mlp.up_proj", "mtp.layers.0.self_attn.q_proj")
PATTERN = "re:"
_LAYER = re.compile(r"\b(?:layers|blocks|h)\.([0-9]+)(?![0-9])(.*)", re.DOTALL)
_PARTS = ("attention", "dense", "shared", "routed")
_DRAFT = "draft"


def shares(
    named: Iterable[tuple[str, str]], rest: str, layers: Sequence[Layer]
) -> dict[str, Formats]:
    """Formats by part, where modules are *named* with theirs and all others are in *rest*.

    A module of a layer stands for its whole part there: where one projection of an attention is
    named, all of it is counted so.
    """
    found: dict[str, dict[str, set[int]]] = {}
    for name, form in named:
        for part, numbers in _places(name, layers):
            found.setdefault(part, {}).setdefault(form, set()).update(numbers)
    parts = {part: _part(part, forms, rest, layers) for part, forms in found.items()}
    return {part: forms for part, forms in parts.items() if forms and forms.keys() != {rest}}


def _places(name: str, layers: Sequence[Layer]) -> Iterator[tuple[str, set[int]]]:
    """Parts that a name or pattern is of, with the numbers of their layers."""
    if name.startswith(PATTERN):
        yield from _matched(_compiled(name), len(layers))
        return
    part = next((part for pattern, part in _MODULES if pattern.search(name)), "")
    numbered = None if part == _DRAFT else _LAYER.search(name)
    if numbered and not numbered[2].strip(".*"):
        number = int(numbered[1])
        parts = _PARTS if number < len(layers) else (_DRAFT,)
        yield from ((part, {number}) for part in parts)
        return
    if not part:
        return
    if numbered is None:
        yield part, set(range(len(layers)))
    elif int(numbered[1]) >= len(layers):
        yield _DRAFT, {0}
    else:
        number = int(numbered[1])
        # Nemotron-H calls its feed-forward layers mixers as well.
        moved = part == "attention" and not layers[number].attention
        yield "dense" if moved else part, {number}


def _compiled(name: str) -> re.Pattern[str]:
    try:
        return re.compile(name.removeprefix(PATTERN))
    except re.error:
        raise ModelError(f"config.json: {name!r} is no pattern") from None


def _matched(pattern: re.Pattern[str], layers: int) -> Iterator[tuple[str, set[int]]]:
    found = {}
    for part, samples in _SAMPLES.items():
        names = ((n, f"model.layers.{n}.{sample}") for n in range(layers) for sample in samples)
        found[part] = {n for n, name in names if pattern.match(name)}
    yield from found.items()
    after = [f"model.layers.{layers}.{sample}" for sample in _SAMPLES["routed"]]
    # A pattern that means layers of the model as well says nothing of those that draft alone.
    if not any(found.values()) and any(pattern.match(name) for name in (*_DRAFTS, *after)):
        yield _DRAFT, {0}


def _part(
    part: str, forms: dict[str, set[int]], rest: str, layers: Sequence[Layer]
) -> dict[str, float]:
    if part == _DRAFT:
        return {next(iter(forms)): 1.0}
    there = {n for n, layer in enumerate(layers) if getattr(layer, part)}
    shares: dict[str, float] = {}
    left = set(there)
    for form, numbers in forms.items():
        shares[form] = shares.get(form, 0.0) + len(numbers & left) / max(len(there), 1)
        left -= numbers
    shares[rest] = shares.get(rest, 0.0) + len(left) / max(len(there), 1)
    return {form: share for form, share in shares.items() if share}


def most(parts: dict[str, Formats], rest: str, layers: Sequence[Layer]) -> str:
    """The format that most weights are in."""
    weights: dict[str, float] = {rest: 0.0}
    for part in _PARTS:
        number = sum(getattr(layer, part) for layer in layers)
        for form, share in parts.get(part, {rest: 1.0}).items():
            weights[form] = weights.get(form, 0.0) + number * share
    return max(weights, key=weights.__getitem__)


_KEY, _OLD_KEY = "quantization_config", "compression_config"
BESIDE = "hf_quant_config.json"
"""What ModelOpt writes beside config.json; some of its checkpoints say nothing elsewhere."""
# vLLM computes a model of float32 in BF16 unless --dtype says otherwise (config/model.py).
_PLAIN = {"bfloat16": "bf16", "float16": "fp16", "float32": "bf16", "float8_e4m3fn": "fp8"}
_ALGORITHMS = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8-block",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP8": "mxfp8",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16_AWQ": "int4",
    "INT4_AWQ": "int4",
    "W8A8_SQ_PER_CHANNEL": "int8",
}
_METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4", "nvfp4": "nvfp4"}
# What compressed-tensors calls the layout of a tensor, where its bits are not written.
_LAYOUTS = {
    "mxfp4-pack-quantized": "mxfp4",
    "nvfp4-pack-quantized": "nvfp4",
    "float-quantized": "fp8",
    "naive-quantized": "fp8",
    "int-quantized": "int8",
}
# By type, bits and the number of weights that share a scale; "" for any.
_WEIGHTS = {
    ("float", "4", "16"): "nvfp4",
    ("float", "4", "32"): "mxfp4",
    ("float", "8", "32"): "mxfp8",
    ("float", "8", ""): "fp8",
    ("int", "4", ""): "int4",
    ("int", "8", ""): "int8",
}
_BITS = {"4": "int4", "8": "int8"}
_EXCEPTIONS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")


@dataclass(frozen=True)
class Stated:
    """Format of most weights, what parts are in instead, and the format of the KV cache.

    *blocks* are the weights that share a scale, by format.
    """

    weights: str
    parts: Mapping[str, Formats] = field(default_factory=dict)
    kv_dtype: str = "auto"
    blocks: Mapping[str, int] = field(default_factory=dict)


def joined(config: Mapping[str, Any], beside: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """config.json with what the second file says, where it says nothing itself.

    As `get_config` of vllm/transformers_utils/config.py does.
    """
    stated = (beside or {}).get("quantization")
    if _section(config) is not None or not isinstance(stated, Mapping):
        return config
    return {**config, _KEY: stated}


def read(config: Mapping[str, Any], text: Mapping[str, Any], layers: Sequence[Layer]) -> Stated:
    """The formats of a model of such *layers*; raises ModelError for one that is not known."""
    stated, plain = _section(config), _plain(text)
    if stated is None:
        if text.get(_KEY) or config.get(_OLD_KEY):
            raise ModelError(f"config.json: {_KEY} is no object")
        return Stated(plain)
    whole = _of_whole(stated)
    listed = [(name, _algorithm(algo)) for name, algo in _listed(stated)]
    targets = list(_targets(stated))
    rest = whole or (plain if listed or targets else None)
    if rest is None:
        raise ModelError(f"config.json: quantisation {_named(stated)} is not known here")
    exceptions = [(name, plain) for name in _exceptions(stated)]
    named = listed or [*exceptions, *_of_other_bits(stated, plain), *targets]
    parts = shares(named, rest, layers)
    if text.get("expert_dtype") == "fp4" and "routed" not in parts:
        # DeepSeek-V4: experts of MXFP4 beside FP8 (vllm/models/deepseek_v4/quant_config.py).
        parts["routed"] = {"mxfp4": 1.0}
    if text.get("expert_dtype") == "fp4":
        parts["draft"] = {"mxfp4": 1.0}
    return Stated(most(parts, rest, layers), parts, _kv_dtype(stated), _blocks(stated, rest))


def _blocks(stated: Mapping[str, Any], rest: str) -> dict[str, int]:
    """Weights that share a scale, by format, where they are others than usual; 1: a channel's."""
    groups, places = stated.get("config_groups"), [(rest, stated)]
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and isinstance(weights := group.get("weights"), Mapping):
            places.append((_of_weights(weights, group.get("format")), weights))
    found: dict[str, int] = {}
    for form, place in places:
        shape = place.get("weight_block_size") or place.get("block_structure")
        size = shape[-1] if isinstance(shape, list) else shape or place.get("group_size")
        if size is not None and (type(size) is not int or not (size > 0 or size == -1)):
            raise ModelError(f"config.json: {short(size)} weights share no scale")
        if size or (form.startswith("int") and place is not stated):
            found[form] = max(size or 1, 1)
    if rest.startswith("int") and stated.get("quant_method") != "compressed-tensors":
        # vLLM halves the groups of cut experts until they are whole (moe_wna16.py).
        found[f"{rest}/routed"] = 1
    return {form: size for form, size in found.items() if size != BLOCKS.get(form)}


def _section(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is written of quantisation, in config.json itself or in its text_config.

    In the order of `get_quant_config` of vllm/model_executor/model_loader/weight_utils.py.
    """
    places = [config, *(config.get(name) for name in ("text_config", "llm_config"))]
    stated = [place.get(_KEY) for place in places if isinstance(place, Mapping)]
    found = [each for each in (*stated, config.get(_OLD_KEY)) if isinstance(each, Mapping)]
    return found[0] if found else None


def _plain(text: Mapping[str, Any]) -> str:
    """The format of weights that are not quantised; BF16 where none is written."""
    name = text.get("torch_dtype") or text.get("dtype") or "bfloat16"
    found = _PLAIN.get(str(name).removeprefix("torch."))
    if found is None:
        raise ModelError(f"config.json: dtype {name!r} is not known here")
    return found


def _named(stated: Mapping[str, Any]) -> str:
    words = (stated.get(key) for key in ("quant_method", "quant_algo", "format"))
    bits = f" of {stated['bits']} bits" if "bits" in stated else ""
    return " ".join(str(word) for word in words if word) + bits or repr(dict(stated))


def _of_whole(stated: Mapping[str, Any]) -> str | None:
    """The format of all that is not named apart; None where there is none."""
    algorithm, method = stated.get("quant_algo"), str(stated.get("quant_method", "")).lower()
    if algorithm and str(algorithm).upper() != "MIXED_PRECISION":
        return _algorithm(algorithm)
    if method in _METHODS:
        found = _METHODS[method]
        return "fp8-block" if found == "fp8" and stated.get("weight_block_size") else found
    general = [group for group, targets in _groups(stated) if not targets]
    if general:
        return general[0]
    if stated.get("config_groups"):
        return None
    return _BITS.get(str(stated.get("bits"))) or _LAYOUTS.get(str(stated.get("format", "")))


def _algorithm(name: object) -> str:
    found = _ALGORITHMS.get(str(name).upper())
    if found is None:
        raise ModelError(f"config.json: quantisation {name!r} is not known here")
    return found


def _listed(stated: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Modules that a checkpoint of mixed precision names, with the algorithm of each."""
    layers = stated.get("quantized_layers")
    for name, each in layers.items() if isinstance(layers, Mapping) else ():
        yield str(name), each.get("quant_algo") if isinstance(each, Mapping) else each


def _groups(stated: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Formats of compressed-tensors' groups with the modules they are for; none: all others."""
    groups = stated.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        targets = (group.get("targets") or ["Linear"]) if isinstance(group, Mapping) else None
        if not isinstance(targets, list):
            raise ModelError("config.json: a group of config_groups is not of its form")
        layout = group.get("format") or stated.get("format")
        yield _of_weights(group.get("weights"), layout), [t for t in targets if t != "Linear"]


def _of_weights(weights: object, layout: object) -> str:
    if str(layout).startswith(("mxfp4", "nvfp4")):
        return _LAYOUTS[str(layout)]
    stated = weights if isinstance(weights, Mapping) else {}
    kind, bits = str(stated.get("type", "int")), str(stated.get("num_bits"))
    exact = _WEIGHTS.get((kind, bits, str(stated.get("group_size"))))
    found = exact or _WEIGHTS.get((kind, bits, ""))
    if found is None:
        raise ModelError(f"config.json: weights of {bits} bits, {kind}, are not known here")
    return "fp8-block" if found == "fp8" and stated.get("strategy") == "block" else found


def _targets(stated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, targets in _groups(stated):
        yield from ((str(target), name) for target in targets)


def _exceptions(stated: Mapping[str, Any]) -> Iterator[str]:
    """Names and patterns of the modules that are not quantised."""
    for key in _EXCEPTIONS:
        names = stated.get(key)
        yield from (str(name) for name in (names if isinstance(names, list) else ()))


def _of_other_bits(stated: Mapping[str, Any], plain: str) -> Iterator[tuple[str, str]]:
    """Modules that GPTQModel (`dynamic`, patterns) and AutoRound (`extra_config`) treat apart.

    As get_dynamic_override of utils/gptq_utils.py and inc/config_parser.py read them.
    """
    for key, mark in (("dynamic", PATTERN), ("extra_config", "")):
        table = stated.get(key)
        for name, each in table.items() if isinstance(table, Mapping) else ():
            bits = each.get("bits") if isinstance(each, Mapping) else None
            if name.startswith("-:"):  # not quantised
                bits = 16
            form = {**_BITS, "16": plain}.get(str(bits))
            if bits is not None and form is None:
                raise ModelError(f"config.json: {name!r} of {bits} bits is not known here")
            if form:
                yield mark + re.sub(r"^[-+]:", "", name), form


def _kv_dtype(stated: Mapping[str, Any]) -> str:
    """What the checkpoint asks for the KV cache."""
    scheme = stated.get("kv_cache_quant_algo") or stated.get("kv_cache_scheme")
    if not scheme:
        return "auto"
    if isinstance(scheme, Mapping):
        scheme = _of_weights(scheme, None)
    name = str(scheme).lower()
    if name not in ("fp8", "nvfp4"):
        raise ModelError(f"config.json: a KV cache in {scheme!r} is not known here")
    return name
