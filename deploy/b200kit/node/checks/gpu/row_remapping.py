"""Repairs of memory and cores that wait, spares that are left (see rows.yaml, too), and what the
driver itself asks to be done with a GPU (NVML field 230).
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView

REPAIRS = {"channel_pending": "a memory channel", "tpc_pending": "a TPC"}


@check("repair.pending")
def pending(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU waits for a reset to repair a memory channel or a TPC."""
    expected = expect.hardware("repair.pending", bool)

    def waits(gpu: GpuView, key: str, part: str) -> Iterator[Finding]:
        if (reading := gpu.flag("repair", key)) != expected.value:
            summary = f"{gpu.subject} waits for a reset to repair {part}"
            yield failed(summary, f"repair {key} {reading}", expected, Action.RESET_GPU, gpu)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key, part in REPAIRS.items():
            yield from within(waits(gpu, key, part), gpu)

    return each_gpu(state, check_gpu, passed("no GPU waits for a repair", expected))


@check("remap.spares")
def spares(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No bank of memory is out of spare rows; one that is low is noted."""
    most = expect.hardware("remap.spent_banks_max")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        if (spent := gpu.number("remap", "banks", "none")) > most.value:
            summary = f"{gpu.subject} has {spent} memory banks without a spare row"
            yield failed(summary, f"banks with none left {spent}", most, Action.REPLACE, gpu)
        if low := gpu.number("remap", "banks", "low"):
            summary = f"{gpu.subject} has {low} memory banks low on spare rows"
            yield noted(summary, gpu, f"banks low {low}", most)

    return each_gpu(state, check_gpu, passed("every memory bank has spare rows", most))


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
