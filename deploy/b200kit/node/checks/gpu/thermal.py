"""How far every GPU is from slowing down for heat. Margins are T.Limit offsets, not degrees.

A margin is what is left to the limit, and slowing down begins where it falls below the GPU's own
slowdown margin, -3 on B200 (NVSentinel docs/designs/042). A fixed temperature would be a guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import HEAT
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured


@check("thermal.margin", HEAT)
def margin(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU is so hot that it slows down; memory that is warm is noted."""
    warm = expect.hardware("thermal.memory_warm")
    expected = rule("the GPU's slowdown margin or more", "NVSentinel docs/designs/042")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        yield from too_hot(gpu, expected)
        yield from memory(gpu, warm)

    return each_gpu(
        state, check_gpu, passed("every GPU is cooler than where it slows down", expected)
    )


def too_hot(gpu: GpuView, expected: Expected) -> Iterator[Finding]:
    """A finding when the margin is below where the GPU slows down, or either is unknown."""
    left, slowdown = gpu.number("temperature_margin_c"), gpu.number("slowdown_margin_c")
    if isinstance(left, Unmeasured):
        yield unread("temperature margin", left, gpu)
    elif isinstance(slowdown, Unmeasured):
        yield unread("slowdown margin", slowdown, gpu)
    elif left < slowdown:
        summary = f"{gpu.subject} is too hot: margin {left} C, it slows down below {slowdown} C"
        read = f"temperature margin {left} C, slowdown margin {slowdown} C"
        text = f"{summary}; look at its cooling"
        yield failed(text, read, expected, Action.POWER_CYCLE, gpu)


def memory(gpu: GpuView, warm: Expected) -> Iterator[Finding]:
    """A note when the memory is warm, in degrees Celsius."""
    degrees = gpu.number("memory_temperature_c")
    if isinstance(degrees, Unmeasured):
        yield unread("memory temperature", degrees, gpu)
    elif degrees > warm.value:
        yield noted(f"{gpu.subject}: memory is at {degrees} C", gpu, f"{degrees} C", warm)
