"""How long the gateway waited for a CPU while a load went through it.

A gateway without a CPU passes chunks on together and adds to every TTFT, as one that buffers does;
its configuration is in order, though. The kernel distinguishes them: the second field of a thread's
schedstat is the time that it was runnable and did not run (Linux, scheduler/sched-stats.rst).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.node.client.client_health import run_delay_ms
from b200kit.node.facts.processes import members
from b200kit.node.lib.readings import attempt, is_unmeasured, text, unmeasured
from b200kit.node.serving.gateway.haproxy import UNIT
from b200kit.node.serving.processes import units

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


def share(before: Any, after: Any, wall_ms: float) -> Any:
    """The part of the time that the thread waited which waited most; or unmeasured."""
    for reading in (before, after):
        if is_unmeasured(reading):
            return reading
    if before.keys() != after.keys():
        return unmeasured(f"{UNIT} was reloaded meanwhile: its threads are others")
    return max(after[thread] - before[thread] for thread in after) / wall_ms
