"""How checks make findings: one place for fail, unmeasured and pass, so that none is forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from b200kit.node.state.expectation import Expected, Unexpected
from b200kit.node.state.verdict import Action, Finding, Status
from b200kit.node.state.view import GpuView, StateView, Unread


class NamedPart(Protocol):
    """What a check looks at one by one: how findings name it, and how a person finds it."""

    @property
    def subject(self) -> str:
        """How findings name it."""

    @property
    def part(self) -> str:
        """What a person needs to find it."""


P = TypeVar("P", bound=NamedPart)
_OWN = re.compile(r"^gpus\[[0-9]+\]\.")
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
    summary: str, gpu: NamedPart | None, read: object, expected: Expected, part: str = ""
) -> Finding:
    """A pass to keep an eye on, on a GPU or another part, or on the node."""
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
    gpu: NamedPart | None = None,
    part: str = "",
    *,
    subject: str = "",
    remedy: str = "",
) -> Finding:
    """A fault, on a GPU or another part, on the node, or on the subject named."""
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


def unread(error: Unread, subject: str = "", part: str = "") -> Finding:
    """Something that was not measured. Nothing is assumed about it."""
    # The GPU is named already.
    what = f"{subject}: {_OWN.sub('', error.what)}" if subject else error.what
    return Finding(
        summary=f"{what} could not be read: {error.reason}",
        status=Status.UNMEASURED,
        subject=subject or "node",
        read=error.reason,
        part=part,
    )


def within(
    findings: Iterable[Finding], of: NamedPart | None = None, *, subject: str = "", part: str = ""
) -> Iterator[Finding]:
    """The findings of one part; what could not be read of it is one, and ends only these."""
    try:
        yield from findings
    except Unexpected:
        raise  # the expectation is the same for every part
    except Unread as error:
        yield unread(error, of.subject if of else subject, of.part if of else part)


def each(
    parts: Iterable[P], check_part: Callable[[P], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """What `check_part` finds on every part; `all_well` when no part has a finding that blocks."""
    blocked = False
    for part in parts:
        try:
            for finding in check_part(part):
                blocked = blocked or finding.blocks
                yield finding
        except Unexpected:
            raise  # the expectation is the same for every part
        except Unread as error:
            blocked = True
            yield unread(error, part.subject, part.part)
    if not blocked:
        yield all_well


def each_gpu(
    state: StateView, check_gpu: Callable[[GpuView], Iterable[Finding]], all_well: Finding
) -> Iterator[Finding]:
    """The same for every GPU that NVML lists; that it lists none is unmeasured."""
    if not state.gpus:
        raise Unread("gpus", "NVML lists no GPU")
    yield from each(state.gpus, check_gpu, all_well)
