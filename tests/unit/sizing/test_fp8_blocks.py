"""A layout that would cut a block of FP8 weights is refused before any connection."""

from __future__ import annotations

from b200kit.catalog import load
from b200kit.node.placement.layout import Shape
from b200kit.sizing import fp8_blocks
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.engines.test_catalogue_commands import asked


@in_subtests(
    ("model", "shape", "refused"),
    [
        ("qwen3-235b-fp8", Shape(tp=4), False),
        ("qwen3-235b-fp8", Shape(tp=8), True),
        ("qwen3-235b-fp8", Shape(tp=8, ep=True), False),
        ("qwen3-235b-fp8", Shape(dp=8, ep=True), False),
        # Without EP the experts are split over all ranks, those of data parallelism included.
        ("qwen3-235b-fp8", Shape(tp=2, dp=4), True),
        ("qwen3-235b-bf16", Shape(tp=8), False),
        ("deepseek-r1-fp8", Shape(tp=8), False),
        ("qwen3.5-27b-fp8", Shape(tp=8), False),
    ],
)
def test_only_a_shape_that_cuts_a_block_is_refused(model: str, shape: Shape, refused: bool) -> None:
    dimensions = load.load().models[model].dimensions
    assert dimensions
    assert bool(fp8_blocks.refusal(dimensions, shape)) is refused


def test_refusal_names_what_would_do() -> None:
    found = asked("vllm", "qwen3-235b-fp8", "latency", tensor_parallel=8)
    assert isinstance(found, dict)
    assert_message(*(f"{key}: {message}" for key, message in found.items()))
