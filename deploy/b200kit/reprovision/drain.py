"""Waiting until nothing is open on a node, and what is done where that takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from b200kit.reprovision import traffic
from b200kit.run.node import Node, StageFailed, duration

_POLL_S = 1.0


def drain(node: Node, senders: Sequence[traffic.Traffic], say: Callable[[str], None]) -> str:
    """Wait for open streams; None of a sender means unknown, which is not taken for none.

    Returns how it ended. Raises StageFailed where the limit of the inventory is over.
    """
    limit_s = node.spec.reprovision.repair_drain_s
    started, reported = time.monotonic(), ""
    while True:
        counts = [(sender.name, sender.status(node)) for sender in senders]
        left = "; ".join(f"{name}: {_streams(count)}" for name, count in counts if count != 0)
        if not left:
            return f"nothing is open after {duration(time.monotonic() - started)}"
        blind = bool(node.unreachable) and not any(count for _, count in counts)
        if blind or time.monotonic() - started >= limit_s:
            return _undrained(node, left, limit_s)
        if reported != (reported := left):
            say(f"waiting: {reported}")
        time.sleep(_POLL_S)


def _undrained(node: Node, left: str, limit_s: float) -> str:
    if node.unreachable:
        return f"cannot be drained, as it does not answer ({left})"
    if node.spec.reprovision.drain_timeout == "cut":
        return "; ".join([f"cut off after {duration(limit_s)} ({left})", *traffic.cut(node)])
    raise StageFailed(
        f"not drained within {duration(limit_s)} ({left}): it takes no new work and nothing was "
        'done to it; run again to continue waiting, or set reprovision.drain_timeout = "cut"'
    )


def _streams(count: int | None) -> str:
    return "open streams are unknown" if count is None else f"{count} open"
