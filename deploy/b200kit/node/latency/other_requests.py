"""Whether others used the node while it was measured, by the gateway's own counters.

Users come through the gateway alone, as replicas listen on loopback; what the watchdog and the
load sent to replicas directly ask is not in its counters.
"""

from __future__ import annotations

from typing import Any

from b200kit.node.lib.readings import is_unmeasured, unmeasured
from b200kit.node.serving.gateway import haproxy


def traffic() -> Any:
    """Requests that the gateway has passed on so far, and those under way; or unmeasured."""
    try:
        return haproxy.traffic()
    except haproxy.HAProxyError as error:
        return unmeasured(str(error))


def count(before: Any, after: Any, ours: int) -> Any:
    """How many requests but *ours* were served between two readings; or unmeasured."""
    for reading in (before, after):
        if is_unmeasured(reading):
            return reading
    if after[0] < before[0]:
        return unmeasured(
            "the gateway was restarted or reloaded meanwhile: its counters began again"
        )
    # One that a dead replica refused is given to another, and counts once more.
    return max(0, before[1] + after[0] - before[0] - ours)
