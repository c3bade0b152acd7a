"""The file systems that what serves writes to have room: caches, journal, what b200kit remembers.

Judged where the expectation asks for it, which check.py and the looks at a serving node do. The
gate does not: a full disk at a boot is better looked at on a node that serves.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, unread
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation, Unexpected
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView, Unmeasured

MIB = 1 << 20
_WHY = "what cannot be written down is lost: evidence, standings, events, the journal"


@check("serving.room")
def room(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No file system that a serving node writes to is full."""
    requested = expect.requested("room", dict)
    if requested is None:
        yield passed("no room is asked for")
        return
    found = [one for path, least in requested.items() for one in _full(state, str(path), least)]
    yield from found or [passed(f"there is room in {', '.join(map(str, requested))}")]


def _full(state: StateView, path: str, least: object) -> Iterator[Finding]:
    """A finding for a file system with less than *least* MiB free."""
    if type(least) is not int:
        raise Unexpected(f"room: {path} must be given whole MiB")
    free = state.number("disks", path, "free_bytes")
    if isinstance(free, Unmeasured):
        yield unread(f"the room in {path}", free)
    elif free < least * MIB:
        summary = f"{path} has {free // MIB} MiB free: make room"
        limit = rule(f"{least} MiB", _WHY)
        yield failed(summary, f"{free} bytes", limit, Action.NONE, part=path)
