"""FP8 weights with a scale for each block of 128 x 128 cannot be cut within a block. Pure.

vLLM 0.33.0 refuses it while it builds the layers (validate_fp8_block_shape in
layers/quantization/utils/fp8_utils.py; quoted), vllm-project/recipes@8959cf64 names the case of
Qwen3-235B: its experts are 1536 wide, so eight GPUs cannot share one. For other engines inferred.
"""

from __future__ import annotations

from b200kit.node.placement.layout import Shape
from b200kit.sizing.dimensions import Dimensions
from b200kit.sizing.fit import WIDTHS

_BLOCK = 128


def refusal(dimensions: Dimensions, shape: Shape) -> str:
    """Why a shape would cut a block of the experts, in one line; empty where none is cut."""
    experts, ways = dimensions.experts, shape.tp * shape.dp
    if dimensions.weights != "fp8-block" or experts is None or shape.ep:
        return ""
    if ways == 1 or experts.width % (ways * _BLOCK) == 0:
        return ""
    able = [n for n in WIDTHS if n < ways and experts.width % (n * _BLOCK) == 0]
    return (
        f"experts of {experts.width} in FP8 by blocks of {_BLOCK} cannot be split over {ways} "
        f"GPUs: expert_parallel=True" + (f", or at most {max(able)} GPUs a replica" if able else "")
    )
