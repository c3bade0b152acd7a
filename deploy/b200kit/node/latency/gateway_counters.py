"""What the gateway's own counters, and the kernel's of it, say of the time of a load.

A gateway without a CPU passes chunks on together and adds to every TTFT, as one that buffers does;
its configuration is in order, though. The kernel distinguishes them: the second field of a thread's
schedstat is the time that it was runnable and did not run (Linux, scheduler/sched-stats.rst).

Users come through the gateway alone, as replicas listen on loopback; what the watchdog and the
load sent to replicas directly ask is not in its counters.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from b200kit.node.client.client_health import run_delay_ms
from b200kit.node.facts.processes import members
from b200kit.node.lib.readings import attempt, is_unmeasured, reason, text, unmeasured
from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import UNIT
from b200kit.node.serving.processes import units
from b200kit.node.state.view import Unmeasured

PROC = Path("/proc")


def delays_ms() -> Any:
    """Milliseconds so far, by thread id, for every thread of the gateway's unit; or unmeasured."""
    return attempt(_delays)


def _delays() -> dict[str, float]:
    pids = members(units([UNIT])[UNIT]["ControlGroup"])
    tasks = [task for pid in pids for task in (PROC / str(pid) / "task").iterdir()]
    if not tasks:
        raise ValueError(f"{UNIT} does not run")
    return {task.name: _delay(task / "schedstat") for task in tasks}


def _delay(path: Path) -> float:
    found = run_delay_ms(text(path))
    if found is None:
        raise ValueError(f"{path} is not what the kernel documents")
    return found


def share(before: Any, after: Any, wall_ms: float) -> Unmeasured | float:
    """The part of the time that the thread waited which waited most."""
    for reading in (before, after):
        if why := reason(reading):
            return Unmeasured(why)
    if before.keys() != after.keys():
        return Unmeasured(f"{UNIT} was reloaded meanwhile: its threads are others")
    waited = max(after[thread] - before[thread] for thread in after)
    return float(waited / wall_ms)


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


def count(before: Any, after: Any, ours: int) -> Unmeasured | int:
    """How many requests but *ours* were served between two readings."""
    for reading in (before, after):
        if why := reason(reading):
            return Unmeasured(why)
    if after[0] < before[0]:
        return Unmeasured(
            "the gateway was restarted or reloaded meanwhile: its counters began again"
        )
    # One that a dead replica refused is given to another, and counts once more.
    return max(0, int(before[1] + after[0] - before[0] - ours))
