"""What the driver itself asks to be done with a GPU (NVML field 230)."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, passed, rule
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView

NONE = 0


@check("recovery.action")
def action(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU waits for a reset, a drain or a reboot."""
    table = expect.hardware("recovery.actions", dict)
    expected = rule("none (0)", table.source)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        number = gpu.number("recovery_action")
        if number != NONE:
            entry = expect.at("hardware", "expect", "recovery.actions", "value", str(number))
            asks = entry.known(str, "asks") or f"action {number}"
            step = Action.parse(entry.reading("action"))
            summary = f"{gpu.subject}: the driver asks for {asks}"
            yield failed(summary, f"recovery action {number}", expected, step, gpu)

    return each_gpu(state, check_gpu, passed("the driver asks for no recovery", expected))
