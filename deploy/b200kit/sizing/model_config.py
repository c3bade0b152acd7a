"""What a model's config.json says about its size: layers, experts, caches, number formats.

`parse` takes the parsed config.json (Hugging Face form, a nested `text_config` included) and gives
a `Dimensions`, or raises ModelError naming what is missing or not known. Nothing is guessed: an
architecture or a key that is not understood is refused, because a wrong size is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.node.lib.readings import short
from b200kit.sizing import dimensions, quantisation
from b200kit.sizing.config_keys import MOST, Config
from b200kit.sizing.dimensions import Dimensions, ModelError
from b200kit.sizing.families import FAMILIES

# As derive_max_model_len_and_key of vllm/transformers_utils/model_arch_config_convertor.py.
_LENGTH = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
_OVERRIDE = "model_max_length"
# Rotary embeddings whose factor is in the length already (_get_and_verify_max_len of
# vllm/config/model.py, 0.32.0): YaRN, too, as Transformers and SGLang take it.
_SCALED = ("default", "mrope", "su", "longrope", "llama3", "yarn", "deepseek_yarn",
           "deepseek_llama_scaling")  # fmt: skip
_NESTED = ("text_config", "llm_config")


def parse(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Dimensions:
    """The shape that a parsed config.json describes.

    *beside* is the `hf_quant_config.json` of a ModelOpt checkpoint, where there is one.
    """
    config = quantisation.joined(config, beside)
    nested = next((config[key] for key in _NESTED if isinstance(config.get(key), Mapping)), None)
    text = {**config, **nested} if nested is not None else dict(config)
    name = text.get("model_type")
    if name is None:
        raise ModelError("config.json has no model_type: sizes are not measured")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise ModelError(
            f"config.json: model_type {short(name)} is not known: sizes are not measured"
        )
    keys = Config(text, own=text if nested is None else nested)
    stack = family.build(keys)
    hidden, vocabulary = keys.whole("hidden_size"), keys.whole("vocab_size")
    length = _length(keys, text)
    if unknown := keys.unknown():
        what = "change" if len(unknown) > 1 else "changes"
        raise ModelError(
            f"config.json: {', '.join(unknown)} {what} sizes in a way that is not known for "
            f"model_type {name!r}"
        )
    stated = quantisation.read(config, text, stack.layers)
    return Dimensions(
        layers=len(stack.layers),
        hidden=hidden,
        heads=stack.heads,
        kv_heads=stack.kv_heads,
        vocabulary=vocabulary,
        max_length=length,
        parameters=dimensions.parameters(stack, vocabulary, hidden),
        keeps=dimensions.grouped(stack.layers),
        draft_keeps=dimensions.grouped(stack.drafts),
        draft_layers=len(stack.drafts),
        latent=stack.latent,
        experts=stack.experts,
        weights=stated.weights,
        parts=stated.parts,
        kv_dtype=stated.kv_dtype,
        cuts=tuple(dict.fromkeys(cut for layer in stack.layers for cut in layer.cuts)),
        blocks=stated.blocks,
    )


def _length(keys: Config, text: Mapping[str, Any]) -> int:
    """Tokens of the longest context: the least that is written, scaled where that is left to do."""
    written = [found for name in _LENGTH if (found := keys.maybe(name))]
    longest = keys.maybe(_OVERRIDE) or min(written, default=0) or keys.whole(*_LENGTH)
    rope = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(rope, Mapping):
        return longest
    # One for each kind of layers, or one for all.
    for each in [part for part in rope.values() if isinstance(part, Mapping)] or [rope]:
        factor = each.get("factor")
        kind = each.get("rope_type", each.get("type", "default"))
        if kind in _SCALED or factor is None:
            continue
        scaled = longest * factor if type(factor) in (int, float) else 0
        if not isinstance(kind, str) or not 1 <= scaled < MOST:
            raise ModelError(f"config.json: rope {short(kind)} by {short(factor)} is no length")
        return int(scaled)
    return longest
