"""The machine's process: started detached, known by id and start time, ended by that alone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lab.daemon import start_time
from tests.lab.paths import LabError
from tests.lab.shell import detach

_SETTLE_S = 1.0


def start(argv: Sequence[str], directory: Path) -> int:
    """Start QEMU and return its process id; `LabError` with its words if it ends at once."""
    output = directory / "qemu.out"
    output.unlink(missing_ok=True)
    pid = detach(argv, output, directory / "pid")
    _record(directory).write_text(json.dumps({"pid": pid, "started": start_time(pid)}))
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end:
        if start_time(pid) is None:
            said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise LabError(f"the virtual machine did not start: {said[-1] if said else output}")
        time.sleep(0.05)
    return pid


def pid_of(directory: Path) -> int | None:
    """Return the id of the machine's process if it is alive."""
    try:
        record = json.loads(_record(directory).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return int(record["pid"]) if start_time(record["pid"]) == record["started"] else None


def stop(directory: Path) -> bool:
    """Cut the machine's power; returns whether it was on. It is gone when this returns."""
    pid = pid_of(directory)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 5
    while start_time(pid) is not None:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return True


def _record(directory: Path) -> Path:
    return directory / "process.json"
