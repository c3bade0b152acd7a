"""Locks between processes of this machine: files that the kernel frees when their holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.lab.paths import LabError

# What concerns this machine, whatever directory a lab lives in.
RUN_DIR = Path("/run/b200-lab")
#: What is shared is made in minutes where it must be downloaded.
SHARED_S = 2400
APT_S = 900


@contextmanager
def locked(path: Path, seconds: float, busy: str, note: str = "") -> Iterator[None]:
    """Hold a lock; `LabError`, *busy* and who holds it, if it is not free in time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        end = time.monotonic() + seconds
        while not _try_lock(file.fileno()):
            if time.monotonic() > end:
                file.seek(0)
                raise LabError(f"{busy}: {file.read().strip()}")
            time.sleep(0.2)
        file.truncate(0)
        file.write(f"process {os.getpid()}{note}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def shared_lock(root: Path) -> AbstractContextManager[None]:
    """Hold the lock of what all labs below *root* share, while it is made."""
    return locked(root / "lock", SHARED_S, "another lab makes what labs share")


def apt_lock() -> AbstractContextManager[None]:
    """Hold the lock under which this machine's own packages are installed."""
    return locked(RUN_DIR / "apt.lock", APT_S, "another process installs packages")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
