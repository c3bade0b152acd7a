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
from dataclasses import dataclass, field, replace
from pathlib import Path

from b200kit.node.client.formulas import OwnError
from b200kit.node.client.percentiles import percentile
from b200kit.node.lib.cpulist import parse
from b200kit.node.lib.readings import is_digits
from b200kit.node.state.view import Unmeasured

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


@dataclass(frozen=True)
class ClientLimits:
    """Beyond these the client, not the server, may have made the numbers.

    needs_run_delay: False where the system has no such reading; then only the loop's lag counts.
    """

    run_delay_share: float = 0.05
    loop_lag_ms: float = 10.0
    loop_stop_ms: float = 250.0
    schedule_delay_ms: float = 50.0
    coalesced_share: float = 0.5
    error_share: float = 0.1
    needs_run_delay: bool = True

    def times(self, factor: float) -> ClientLimits:
        """The limits where waiting for a CPU may last *factor* times as long."""
        return replace(
            self,
            run_delay_share=min(1.0, self.run_delay_share * factor),
            loop_lag_ms=self.loop_lag_ms * factor,
            loop_stop_ms=self.loop_stop_ms * factor,
            schedule_delay_ms=self.schedule_delay_ms * factor,
            error_share=self.error_share * factor,
            coalesced_share=1.0 - (1.0 - self.coalesced_share) / factor,
        )


@dataclass(frozen=True)
class ClientHealth:
    """How the measuring process itself fared during the run.

    run_delay_ms: time it was runnable but had no CPU (/proc/self/schedstat); None = not readable.
    wall_ms: length of the observation. loop_lag_ms: oversleep of the event loop's 5 ms sampler.
    """

    run_delay_ms: float | None
    wall_ms: float
    loop_lag_ms: tuple[float, ...]
    scheduler: str

    @property
    def run_delay_share(self) -> float | None:
        """Run delay as a share of the wall time."""
        if self.run_delay_ms is None or self.wall_ms <= 0:
            return None
        return self.run_delay_ms / self.wall_ms

    @property
    def lag_max_ms(self) -> float | None:
        """The longest time for which the event loop stood still; None without samples."""
        return max(self.loop_lag_ms, default=None)

    @property
    def lag_p99_ms(self) -> float | None:
        """P99 of the event loop's lag; None without samples."""
        return percentile(self.loop_lag_ms, 99) if self.loop_lag_ms else None

    def starved(self, limits: ClientLimits) -> list[str]:
        """Why the client counts as starved; empty when it does not."""
        reasons = []
        share, lag = self.run_delay_share, self.lag_p99_ms
        if share is None:
            if limits.needs_run_delay:
                reasons.append("client starved? its run delay could not be read")
        elif share > limits.run_delay_share:
            reasons.append(
                f"client starved: it waited {self.run_delay_ms:.0f} ms for a CPU in"
                f" {self.wall_ms:.0f} ms ({share:.0%}, limit {limits.run_delay_share:.0%});"
                " give it a CPU of its own or SCHED_RR"
            )
        if lag is not None and lag > limits.loop_lag_ms:
            reasons.append(
                f"client starved: its event loop ran {lag:.1f} ms late at P99"
                f" (limit {limits.loop_lag_ms:g} ms)"
            )
        if (self.lag_max_ms or 0.0) > limits.loop_stop_ms:
            reasons.append(
                f"client starved: its event loop stood still for {self.lag_max_ms:.0f} ms"
                f" (limit {limits.loop_stop_ms:g} ms): chunks of that time were stamped late"
            )
        return reasons

    def error(self, limits: ClientLimits) -> OwnError | None:
        """How far its own figures may be off; None without samples."""
        if not self.loop_lag_ms:
            return None
        p50, p95, p99 = (percentile(self.loop_lag_ms, percent) for percent in (50, 95, 99))
        return OwnError(p50, p95, p99, limits.error_share)

    def figures(self, limits: ClientLimits, cpus: str) -> ClientFigures:
        """As a result keeps it."""
        return ClientFigures(
            _or_unmeasured(self.run_delay_ms, "schedstat not readable"),
            _or_unmeasured(self.run_delay_share, "schedstat not readable"),
            _or_unmeasured(self.lag_p99_ms, "no samples"),
            _or_unmeasured(self.lag_max_ms, "no samples"),
            self.scheduler,
            bool(self.starved(limits)),
            cpus,
            self.error(limits),
        )


@dataclass(frozen=True)
class ClientFigures:
    """How the client fared: its wait for a CPU and its event loop's lag, its priority and CPUs."""

    run_delay_ms: Unmeasured | float
    run_delay_share: Unmeasured | float
    loop_lag_ms_p99: Unmeasured | float
    loop_lag_ms_max: Unmeasured | float
    scheduler: str
    starved: bool
    cpus: str
    own_error: OwnError | None = None


def _or_unmeasured(value: float | None, reason: str) -> Unmeasured | float:
    return Unmeasured(reason) if value is None else value


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
