"""Confidential computing, and clocks that the hardware slows down; other modes: rows.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, noted, passed
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import HEAT
from b200kit.node.state.clock_reasons import undefined
from b200kit.node.state.expectation import Expectation, Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView


@check("mode.confidential-compute")
def confidential(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Confidential computing is off: it costs bandwidth, and peers need another fabric set-up."""
    desired = expect.hardware("mode.confidential_compute", bool)
    is_on = state.flag("nvml", "confidential_compute")
    if is_on != desired.value:
        word = "on" if is_on else "off"
        summary = f"confidential computing is {word}: set it in the firmware and reboot"
        yield failed(summary, f"confidential_compute {is_on}", desired, Action.NONE)
    else:
        yield passed("confidential computing is as it should be", desired)


@check("clocks.slowdown", HEAT)
def slowdown(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No GPU is slowed down by its hardware. A power cap under load is normal.

    Software that lowers clocks for heat still holds the temperature; it is noted, as is a reason
    that nvml.h does not define.
    """
    table = expect.hardware("clocks.bad_reasons", dict)
    bad, soft = bits(table), bits(expect.hardware("clocks.noted_reasons", dict))
    expected = Expected("none of " + ", ".join(bad.values()), "", table.source)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        mask = gpu.number("clocks_event_reasons")
        read, slow = "clocks event reasons", f"{gpu.subject} is slowed down"
        if found := named(mask, bad):
            summary = f"{slow}: {', '.join(found)}"
            yield failed(summary, f"{read} {mask}", expected, Action.POWER_CYCLE, gpu)
        elif found := named(mask, soft):
            yield noted(f"{slow}: {', '.join(found)}", gpu, f"{read} {mask:#x}", expected)
        if other := undefined(mask):
            yield noted(f"{gpu.subject} has {other}", gpu, f"{read} {mask:#x}", expected)

    return each_gpu(state, check_gpu, passed("no GPU is slowed down by its hardware", expected))


def bits(table: Expected) -> dict[int, str]:
    """Bit to name of a table of the hardware data."""
    try:
        return {int(bit): str(name) for bit, name in table.value.items()}
    except ValueError as error:
        raise Unexpected(table.source, str(error)) from error


def named(mask: int, reasons: dict[int, str]) -> list[str]:
    """The reasons a mask holds."""
    return [name for bit, name in reasons.items() if mask & bit]
