"""Whether a process is still the one it was: for hooks that systemd keeps running after it died.

When a unit's main process dies early, its ExecStartPost goes on until its own time-out (observed
with systemd 252), so the hook itself has to watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class MainPidGone(Exception):
    """The main process ended; the text says which."""


class MainPid:
    """A process, identified by its number and its start time (numbers are reused)."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        self.pid = pid
        self._stat = proc / str(pid) / "stat"
        self._born = self._start_time()

    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return self._born is not None and self._start_time() == self._born

    async def guard(self, work: Awaitable[T], every_s: float = 0.2) -> T:
        """The result of `work`; raises MainPidGone as soon as the process ends before it.

        Work that fails because the process has just died is reported as that, too.
        """
        job = asyncio.ensure_future(work)
        try:
            while not job.done():
                if not self.alive():
                    raise MainPidGone(f"the main process {self.pid} is gone")
                await asyncio.wait({job}, timeout=every_s)
            if job.exception() is not None:
                await asyncio.sleep(every_s)  # connections break before the process is reaped
                if not self.alive():
                    raise MainPidGone(f"the main process {self.pid} is gone") from job.exception()
            return job.result()
        finally:
            job.cancel()

    def _start_time(self) -> str | None:
        """Field 22 of stat, None when there is no such process or it is a zombie."""
        try:
            fields = self._stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if not fields or fields[0] in "ZX" else fields[19]
