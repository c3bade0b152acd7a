"""What a node serves in fewer bits than the model was published in. Pure.

The original is what the model's maker published first: gpt-oss in MXFP4 and DeepSeek-V3 in FP8 are
originals (`original` of their files in b200kit/catalog/models/), a quantised copy of Llama is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit import engines
from b200kit.catalog.types import Model
from b200kit.engines import kv_cache
from b200kit.engines.contract import Scalar
from b200kit.inventory import shape
from b200kit.inventory.spec import NodeSpec

PLAIN = frozenset({"auto", "bf16", "fp16", "bfloat16", "float16", "float32"})
# vLLM's and SGLang's flag that quantises a checkpoint while it is loaded, or names how it was.
_ONLINE = "quantization"


def lowered(spec: NodeSpec) -> tuple[str, ...]:
    """Names of what a node serves in fewer bits, such as "nvfp4 weights" and "fp8 KV cache"."""
    model, flags, kind = shape.model_of(spec), shape.flags_of(spec), engines.get(spec.engine)
    every = [flags, *({**flags, **dict(own)} for _, own in spec.replica_flags)]
    found = (name for each in every for name in of(model, kv_cache.stated(kind, each), each))
    return tuple(dict.fromkeys(found))


def of(model: Model, kv_format: str, flags: Mapping[str, Scalar]) -> Iterator[str]:
    """The same of a model under an engine's flags, whose KV cache is kept in *kv_format*."""
    known = model.dimensions
    narrow = sorted((known.formats if known else set()) - PLAIN)
    if known is None:
        yield "weights of a format that is not known"
    elif narrow and not model.original:
        yield f"{known.weights if known.weights in narrow else narrow[0]} weights"
    elif not narrow and _ONLINE in flags:
        yield f"weights quantised when loaded ({flags[_ONLINE]})"
    if kv_format == "auto" and known and not model.original:
        kv_format = known.kv_dtype
    if kv_format not in PLAIN:
        yield f"{kv_format} KV cache"
