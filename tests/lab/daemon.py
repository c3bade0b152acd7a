"""A program of the lab that outlives the command that starts it.

It is known by its process id *and* its start time, so that a process that got the same id later is
never taken for it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.paths import LabError
from tests.lab.shell import detach


@dataclass(frozen=True)
class Daemon:
    """One program: what it is called, and where its record and its output are kept."""

    name: str
    directory: Path

    def start(
        self,
        command: Sequence[str | Path],
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and return when it is *ready*; LabError with its last words if it is not."""
        output = self.directory / f"{self.name}.out"
        output.unlink(missing_ok=True)
        pid = detach(command, output, self.directory / f"{self.name}.pid", env=environment)
        self._record().write_text(json.dumps({"pid": pid, "started": start_time(pid)}))
        came = _within(120, lambda: ready() or start_time(pid) is None)
        if not came or start_time(pid) is None:
            self.stop()
            words = output.read_text("utf-8", "replace").strip().splitlines()
            raise LabError(f"{self.name} did not start: {(words or ['nothing said'])[-1]}")

    def stop(self) -> None:
        """Stop its process group, if it runs, and return when it is gone."""
        pid = self.pid()
        if pid is not None:
            os.killpg(pid, signal.SIGTERM)
            if not _within(10, lambda: start_time(pid) is None):
                os.killpg(pid, signal.SIGKILL)
                _within(60, lambda: start_time(pid) is None)
        self._record().unlink(missing_ok=True)

    def pid(self) -> int | None:
        """Its process id if it is alive."""
        try:
            record = json.loads(self._record().read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return int(record["pid"]) if start_time(record["pid"]) == record["started"] else None

    def _record(self) -> Path:
        return self.directory / f"{self.name}.json"


def start_time(pid: int) -> str | None:
    """Return a process's start time (clock ticks since boot), or None if there is no process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
