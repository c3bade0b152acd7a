"""How the measuring process itself fares: CPU wait, event-loop lag, priority, affinity.

On a machine whose CPUs spin (vLLM's shared-memory readers do while decoding) a client of normal
priority may get no CPU for a whole answer: then all chunks seem to come at once, TTFT equals E2E
and ITL is nought. /proc/self/schedstat shows it: its second field is the time in nanoseconds that
the main thread was runnable but did not run (Linux, Documentation/scheduler/sched-stats.rst).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.node.client.smoke_verdict import ClientHealth
from b200kit.node.lib.cpulist import parse
from b200kit.node.lib.readings import is_digits

SCHEDSTAT = Path("/proc/self/schedstat")
SAMPLE_S = 0.005


def run_delay_ms(text: str) -> float | None:
    """Run delay in milliseconds from the text of a schedstat file; None when it is not one."""
    fields = text.split()
    return int(fields[1]) / 1e6 if len(fields) >= 2 and is_digits(fields[1]) else None


def read_run_delay_ms(path: Path = SCHEDSTAT) -> float | None:
    """This process' run delay so far; None where the kernel does not report it."""
    try:
        return run_delay_ms(path.read_text())
    except OSError:
        return None


def claim_realtime() -> str:
    """Become SCHED_RR (children do not inherit it) where permitted: "rr", else "other"."""
    if not hasattr(os, "SCHED_RR"):  # a laptop with another system
        return "other"
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(1))
    return "rr" if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR else "other"


def pin(cpus: str | None) -> str:
    """Restrict this process to a CPU list such as "2-3"; returns the list now in force.

    None leaves it. Raises ValueError for a list that is malformed or names no CPU allowed here.
    """
    if not hasattr(os, "sched_setaffinity"):
        if cpus:
            raise ValueError("this system cannot restrict a process to CPUs")
        return "any"
    if cpus:
        try:
            os.sched_setaffinity(0, parse(cpus))
        except OSError as error:
            raise ValueError(f"client_cpus {cpus!r}: {error.strerror}") from error
    return ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))


@dataclass
class Watch:
    """Observes the client between `start` and `stop`; then `health()` says how it fared."""

    scheduler: str
    lags_ms: list[float] = field(default_factory=list)
    _started: float = 0.0
    _wall_ms: float = 0.0
    _before: float | None = None
    _delay_ms: float | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Watch]:
        """Watch while the block runs. The garbage collector is kept out of it."""
        self._started, self._before = time.perf_counter(), read_run_delay_ms()
        sampler = asyncio.ensure_future(self._sample())
        gc.disable()
        try:
            yield self
        finally:
            gc.enable()
            sampler.cancel()
            after = read_run_delay_ms()
            self._wall_ms += (time.perf_counter() - self._started) * 1000
            if after is not None and self._before is not None:
                self._delay_ms = (self._delay_ms or 0.0) + after - self._before

    async def _sample(self) -> None:
        """Sleep 5 ms over and over and keep by how much each sleep was late."""
        while True:
            due = time.perf_counter() + SAMPLE_S
            await asyncio.sleep(SAMPLE_S)
            self.lags_ms.append(max(0.0, time.perf_counter() - due) * 1000)

    def health(self) -> ClientHealth:
        """What was observed, over all watched blocks together."""
        return ClientHealth(self._delay_ms, self._wall_ms, tuple(self.lags_ms), self.scheduler)
