"""How far every GPU is from slowing down for heat. Margins are T.Limit offsets, not degrees.

A margin is what is left to the limit, and slowing down begins where it falls below the GPU's own
slowdown margin, -3 on B200 (NVSentinel docs/designs/042). A fixed temperature would be a guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import HEAT
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView


@check("thermal.margin", HEAT)
def margin(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU is so hot that it slows down; memory that is warm is noted."""
    warm = expect.hardware("thermal.memory_warm")
    expected = rule("the GPU's slowdown margin or more", "NVSentinel docs/designs/042")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        left, slowdown = gpu.number("temperature_margin_c"), gpu.number("slowdown_margin_c")
        if left < slowdown:
            summary = f"{gpu.subject} is too hot: margin {left} C, it slows down below {slowdown} C"
            read = f"temperature margin {left} C, slowdown margin {slowdown} C"
            text = f"{summary}; look at its cooling"
            yield failed(text, read, expected, Action.POWER_CYCLE, gpu)
        if (degrees := gpu.number("memory_temperature_c")) > warm.value:
            yield noted(f"{gpu.subject}: memory is at {degrees} C", gpu, f"{degrees} C", warm)

    return each_gpu(
        state, check_gpu, passed("every GPU is cooler than where it slows down", expected)
    )
