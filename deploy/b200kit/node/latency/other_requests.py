"""Whether others used the node while it was measured, by the gateway's own counters.

Users come through the gateway alone, as replicas listen on loopback; what the watchdog and the
load sent to replicas directly ask is not in its counters.
"""

from __future__ import annotations

import asyncio
from typing import Any

from b200kit.node.lib.readings import is_unmeasured, unmeasured
from b200kit.node.serving.gateway import haproxy


def traffic() -> Any:
    """Requests that the gateway has passed on so far, and those under way; or unmeasured."""
    try:
        return haproxy.traffic()
    except haproxy.HAProxyError as error:
        return unmeasured(str(error))


_CLOSING_S = 1.0
_AGAIN_S = 0.02


async def at_rest(within_s: float = _CLOSING_S) -> Any:
    """`traffic` once nothing is under way, or as it is when the time is over.

    Our own last answer may have arrived before the gateway counts it as over, on busy CPUs; what
    others have under way is still there a second later, or over before anything is measured.
    """
    found, left = traffic(), within_s
    while not is_unmeasured(found) and found[1] and left > 0:
        await asyncio.sleep(_AGAIN_S)
        found, left = traffic(), left - _AGAIN_S
    return found


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
