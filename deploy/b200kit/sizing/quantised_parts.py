"""Which part of a model a module belongs to, and what share of a part is in which format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from b200kit.sizing.dimensions import Formats, Layer, ModelError

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
