"""How checks make findings: one place for fail, unmeasured and pass, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from b200kit.node.state.expectation import Expected
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView, Unmeasured

T = TypeVar("T")
RULE = "b200kit rule"
"""Source of an expectation that is no hardware figure but our own rule."""


def rule(value: object, why: str) -> Expected:
    """An expectation that follows from a rule of ours and not from hardware data."""
    return Expected(value, "", f"{RULE}: {why}")


def passed(summary: str, expected: Expected | None = None, subject: str = "node") -> Finding:
    """A finding that all is well, with what it was compared to."""
    text, source = (expected.text, expected.source) if expected else ("", "")
    return Finding(summary=summary, subject=subject, expected=text, source=source)


def noted(
    summary: str, gpu: GpuView | None, read: object, expected: Expected, part: str = ""
) -> Finding:
    """A pass to keep an eye on, on a GPU or on the node."""
    return Finding(
        summary=summary,
        subject=gpu.subject if gpu else "node",
        read=str(read),
        expected=expected.text,
        source=expected.source,
        action=Action.MONITOR,
        part=part or (gpu.part if gpu else ""),
    )


def failed(
    summary: str,
    read: object,
    expected: Expected,
    action: Action,
    gpu: GpuView | None = None,
    part: str = "",
    *,
    subject: str = "",
    remedy: str = "",
) -> Finding:
    """A fault, on a GPU, on the node, or on the subject named."""
    return Finding(
        summary=summary,
        status=Status.FAIL,
        subject=subject or (gpu.subject if gpu else "node"),
        read=str(read),
        expected=expected.text,
        source=expected.source,
        action=action,
        part=part or (gpu.part if gpu else ""),
        remedy=remedy,
    )


def unread(
    what: str, reason: Unmeasured, gpu: GpuView | None = None, *, subject: str = ""
) -> Finding:
    """Something that was not measured. Nothing is assumed about it."""
    whose = subject or (gpu.subject if gpu else "")
    return Finding(
        summary=f"{whose}{': ' if whose else ''}{what} could not be read: {reason.reason}",
        status=Status.UNMEASURED,
        subject=whose or "node",
        read=reason.reason,
        part=gpu.part if gpu else "",
    )


def value(
    what: str,
    reading: T | Unmeasured,
    good: Callable[[T], bool],
    text: Callable[[T], str],
    expected: Expected,
    action: Action,
    gpu: GpuView | None = None,
) -> list[Finding]:
    """Findings of one reading: none when it is good, one when it is bad or was not read."""
    if isinstance(reading, Unmeasured):
        return [unread(what, reading, gpu)]
    if good(reading):
        return []
    return [failed(text(reading), f"{what} {reading}", expected, action, gpu)]


def each_gpu(
    state: StateView, check_gpu: Callable[[GpuView], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """What `check_gpu` finds on every GPU; `all_well` when no GPU has a finding that blocks."""
    gpus = state.gpus()
    if isinstance(gpus, Unmeasured):
        yield unread("the GPUs", gpus)
        return
    if not gpus:
        yield unread("the GPUs", Unmeasured("NVML lists no GPU"))
        return
    found = [finding for gpu in gpus for finding in check_gpu(gpu)]
    yield from found
    if not any(finding.blocks for finding in found):
        yield all_well
