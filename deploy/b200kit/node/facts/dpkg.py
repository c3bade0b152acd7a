"""What dpkg left unfinished, and who holds its locks."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt, is_digits, is_unmeasured

ROOT = Path("/")
UPDATES = "var/lib/dpkg/updates"
DPKG_LOCK = "var/lib/dpkg/lock"
LOCKS = (
    "var/lib/dpkg/lock-frontend",
    DPKG_LOCK,
    "var/lib/apt/lists/lock",
    "var/cache/apt/archives/lock",
)
"""What apt and dpkg lock, outermost first (apt-pkg/deb/debsystem.cc, apt-pkg/acquire.cc)."""
_SETTLED = "inc"
"""dpkg's second letter for installed, not installed, and only configuration left."""
# struct flock of Linux on 64 bits: short type, short whence, (padding) long start, long len, pid.
_FLOCK = "hhqqi4x"


def dpkg(listing: Callable[[], Any]) -> dict[str, Any]:
    """Whether dpkg was interrupted, and every package that is not fully installed."""
    rows = listing()
    return {
        "interrupted": attempt(interrupted),
        "broken": rows if is_unmeasured(rows) else broken(rows),
    }


def interrupted() -> bool:
    """Whether dpkg's journal holds steps that no dpkg has taken in yet.

    Its files are named by numbers alone; apt refuses to work on such a node ("dpkg was
    interrupted", apt-pkg/deb/debsystem.cc CheckUpdates). A dpkg that is at work has them, too, and
    holds its lock.
    """
    journal = any(is_digits(entry.name) for entry in (ROOT / UPDATES).iterdir())
    return journal and locked_by(ROOT / DPKG_LOCK) is None


def broken(listing: str) -> dict[str, str]:
    """Package to status ("iF", "iU", "iH", "it") of those that are not fully installed.

    The third letter is there only for a package that must be reinstalled ("iHR").
    """
    rows = (line.split("\t") for line in listing.splitlines())
    states = {row[0]: row[2].strip() for row in rows if len(row) == 3}
    return {
        name: state
        for name, state in sorted(states.items())
        if state[1:2] not in _SETTLED or state[2:]
    }


def holder() -> str | None:
    """Who holds one of the locks, as "process 812 (apt-get dist-upgrade)"; None when all are free.

    Asked of the kernel by F_GETLK, so it needs no fuser and takes no lock.
    """
    for lock in LOCKS:
        pid = locked_by(ROOT / lock)
        if pid:
            return f"process {pid} ({command_line(pid)})"
    return None


def locked_by(path: Path) -> int | None:
    """Process that keeps this one from write-locking a file; None when none does."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    try:
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    finally:
        os.close(descriptor)
    return None if answer[0] == fcntl.F_UNLCK else int(answer[4])


def command_line(pid: int) -> str:
    """A process's command line, cut; what is known of one that has ended or is hidden."""
    try:
        raw = (ROOT / f"proc/{pid}/cmdline").read_bytes()
    except OSError:
        return "its name cannot be read"
    words = raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return words[:80] or "a process without a command line"
