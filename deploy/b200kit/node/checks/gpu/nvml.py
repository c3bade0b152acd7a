"""Can NVML be asked at all, and can it ask every GPU?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from b200kit.node.checks.findings import each_gpu, failed, passed, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Expected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import GpuView, StateView, Unmeasured

CODE = re.compile(r"\((\d+)\)$")
"""NVML's return code at the end of a reason, "Driver Not Loaded (9)"."""


def code_of(reason: Unmeasured) -> str:
    """The NVML return code in a reason, "" when it names none."""
    match = CODE.search(reason.reason)
    return match.group(1) if match else ""


def refused(
    expect: Expectation, table: Expected, reason: Unmeasured, gpu: GpuView | None = None
) -> Finding:
    """The finding for an NVML error: a fault when its code is known as one, else unmeasured."""
    entry = expect.at("hardware", "expect", "nvml.faults", "value", code_of(reason))
    meaning = entry.text("meaning")
    if isinstance(meaning, Unmeasured):
        return unread("NVML", reason, gpu)
    subject = gpu.subject if gpu else "NVML"
    action = Action.parse(entry.text("action"))
    expected = Expected("an answer", "", table.source)
    return failed(f"{subject}: {meaning}", reason.reason, expected, action, gpu)


@check("nvml.available")
def available(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The driver's library is there, matches the loaded module and answers."""
    table, version = expect.hardware("nvml.faults", dict), state.text("nvml", "nvml_version")
    if isinstance(version, Unmeasured):
        yield refused(expect, table, version)
    else:
        yield passed(f"NVML {version} answers")


@check("nvml.gpu")
def reachable(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """NVML can open every GPU it counts; one that is lost or needs a reset says so here."""
    table = expect.hardware("nvml.faults", dict)

    def check_gpu(gpu: GpuView) -> Iterator[Finding]:
        uuid = gpu.text("uuid")
        if isinstance(uuid, Unmeasured):
            yield refused(expect, table, uuid, gpu)

    return each_gpu(state, check_gpu, passed("NVML opens every GPU"))
