"""The file systems that what serves writes to have room: caches, journal, what b200kit remembers.

Judged where the expectation asks for it, which check.py and the looks at a serving node do. The
gate does not: a full disk at a boot is better looked at on a node that serves.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.checks.findings import failed, passed, rule, within
from b200kit.node.checks.judge import check
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Action, Finding
from b200kit.node.state.view import StateView

MIB = 1 << 20
_WHY = "what cannot be written down is lost: evidence, standings, events, the journal"


@check("serving.room")
def room(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """No file system that a serving node writes to is full."""
    if expect.requested(dict, "room") is None:
        yield passed("no room is asked for")
        return
    paths = expect.names("room")
    found = [one for path in paths for one in within(_full(expect, state, path))]
    yield from found or [passed(f"there is room in {', '.join(paths)}")]


def _full(expect: Expectation, state: StateView, path: str) -> Iterator[Finding]:
    """A finding for a file system with fewer MiB free than are asked for."""
    least, free = expect.number("room", path), state.number("disks", path, "free_bytes")
    if free < least * MIB:
        summary = f"{path} has {free // MIB} MiB free: make room"
        limit = rule(f"{least} MiB", _WHY)
        yield failed(summary, f"{free} bytes", limit, Action.NONE, part=path)
