"""Can NVML be asked at all, and can it ask every GPU?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, passed
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unread

CODE = re.compile(r"\(([0-9]+)\)$")
"""NVML's return code at the end of a reason, "Driver Not Loaded (9)"."""


def refused(
    expect: Expectation, table: Expected, error: Unread, gpu: GpuView | None = None
) -> Finding:
    """The fault that an NVML error of a known code is; any other raises Unread."""
    code = match[1] if (match := CODE.search(error.reason)) else ""
    entry = expect.at("hardware", "expect", "nvml.faults", "value", code)
    meaning = entry.known(str, "meaning")
    if meaning is None:
        raise Unread("NVML", error.reason) from error
    subject, action = gpu.subject if gpu else "NVML", Action.parse(entry.reading("action"))
    expected = Expected("an answer", "", table.source)
    return failed(f"{subject}: {meaning}", error.reason, expected, action, gpu)


@check("nvml.available")
def available(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The driver's library is there, matches the loaded module and answers."""
    table = expect.hardware("nvml.faults", dict)
    try:
        yield passed(f"NVML {state.text('nvml', 'nvml_version')} answers")
    except Unread as error:
        yield refused(expect, table, error)


@check("nvml.gpu")
def reachable(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML can open every GPU it counts; one that is lost or needs a reset says so here."""
    table = expect.hardware("nvml.faults", dict)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        try:
            gpu.text("uuid")
        except Unread as error:
            yield refused(expect, table, error, gpu)

    return each_gpu(state, check_gpu, passed("NVML opens every GPU"))
