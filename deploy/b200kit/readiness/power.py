"""The power limit that is asked for, beside the limits that the GPUs take. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import passed
from b200kit.node.checks.gpu.power import cap_of
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import refused


def limits(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every GPU takes the power limit that is asked for, as far as a driver is there to say."""
    cap = cap_of(expect)
    if cap is None:
        yield passed("no power limit is asked for")
        return
    found = []
    for gpu in state.known_gpus:
        lowest, highest = gpu.reading("power_min_mw"), gpu.reading("power_max_mw")
        below = isinstance(lowest, int) and cap.value < lowest
        if below or (isinstance(highest, int) and cap.value > highest):
            takes = f"{lowest} to {highest} mW"
            summary = f"{gpu.subject} takes {takes}, and {cap.text} are asked for"
            remedy = "set settings.power_limit_w to what every GPU takes"
            found.append(refused(summary, takes, cap.text, remedy))
    yield from found or [passed(f"no GPU is known not to take a limit of {cap.text}")]
