"""The power a GPU may draw: less than its board's makes it slow, and its group with it."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.checks.node_scale import SETTING
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured

LIMITS = {
    "power_max_mw": ("maximum", "the board or its VBIOS is another one", Action.NONE),
    "power_default_mw": ("default", "the board or its VBIOS is another one", Action.NONE),
    "power_enforced_mw": ("enforced", "a lower one was set (nvidia-smi -pl)", Action.REBOOT),
}
"""Key to what people call it, why it may be low, and what repairs it, from cause to symptom.

A limit that was set is gone after a reboot, unless something sets it at every boot.
"""


@check("power.limit", SETTING)
def limit(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The enforced, the default and the highest power limit of every GPU are the hardware's."""
    expected = expect.hardware("power.limit")

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        for key in LIMITS:
            reading = gpu.number(key)
            if isinstance(reading, Unmeasured):
                yield unread(f"{LIMITS[key][0]} power limit", reading, gpu)
            elif reading < expected.value:
                yield low(gpu, key, reading, expected)
                break

    return each_gpu(state, check_gpu, passed(f"every GPU may draw {expected.text}", expected))


def low(gpu: GpuView, key: str, reading: int, expected: Expected) -> Finding:
    """The finding of one limit below what the hardware must have, in mW."""
    name, why, action = LIMITS[key]
    watts = f"{reading / 1000:g} W, not {expected.value / 1000:g} W"
    summary = f"{gpu.subject} has a {name} power limit of {watts}: {why}"
    summary = summary.replace("a enforced", "an enforced")
    return failed(summary, f"{key} {reading}", expected, action, gpu)
