"""Weights that share a scale cannot be cut between GPUs. Pure.

Down and output projections are cut along their input. A width that is not whole blocks on each GPU
is refused while vLLM builds the layers, for all but routed experts whatever EP is
(vllm-project/vllm#5675, #52997; validate_fp8_block_shape of layers/quantization/utils/fp8_utils.py,
awq.py, modelopt.py and kernels/linear/mixed_precision, 0.32.0; quoted). For others it is inferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from b200kit.node.placement.layout import Shape
from b200kit.sizing.dimensions import WIDTHS, Dimensions

# Weights that share a scale by format, where a checkpoint does not say (INT4: Kimi's). Of
# experts vLLM hands out MXFP4 by whole blocks, the last GPU has less (cdiv in models/gpt_oss.py).
BLOCKS: Mapping[str, int] = {
    "fp8-block": 128, "int4": 32, "mxfp8": 32, "mxfp4": 32, "nvfp4": 16, "mxfp4/routed": 1,
}  # fmt: skip
_NAMES = {"routed": "experts", "shared": "shared experts", "dense": "feed-forward layers"}


def refusal(dimensions: Dimensions, shape: Shape) -> tuple[str, str]:
    """The key to change and why, where a shape cuts a block; two empty texts where none is cut."""
    cut = _cut(dimensions, shape)
    if not cut:
        return "", ""
    spread = replace(shape, ep=True)
    able = [
        n * shape.dp for n in WIDTHS if n < shape.tp and not _cut(dimensions, replace(shape, tp=n))
    ]
    by_experts = dimensions.moe and not shape.ep and not _cut(dimensions, spread)
    ways = ["expert_parallel=True"] * by_experts
    ways += [f"at most {max(able)} GPUs a replica"] * bool(able)
    key = "expert_parallel" if by_experts else "tensor_parallel"
    return key, cut + (": " + ", or ".join(ways) if ways else "")


def _cut(dimensions: Dimensions, shape: Shape) -> str:
    """The first part that is cut within a block, in words."""
    for part, width in dimensions.cuts:
        experts = part == "routed"
        ways = (1 if shape.ep else shape.tp * shape.dp) if experts else shape.tp
        for form in dimensions.parts.get(part, {dimensions.weights: 1.0}):
            block = _block(dimensions, form, part)
            if ways > 1 and width % (ways * block):
                what = f"{_NAMES.get(part, part)} of {width} in {form.partition('-')[0].upper()}"
                return f"{what} by blocks of {block} cannot be split over {ways} GPUs"
    return ""


def _block(dimensions: Dimensions, form: str, part: str) -> int:
    known = {**BLOCKS, **dimensions.blocks}
    return known.get(f"{form}/{part}", known.get(form, 1))
