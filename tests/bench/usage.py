"""What a command and all that it starts take of this machine.

    python -m tests.bench.usage OUT COMMAND...

Runs the command, whose output and exit status are passed on; OUT then has `wall_s`, `cpu_s` and
`memory_mb` as JSON. `wall_s` ends with the command. `cpu_s` counts every process that it started,
those that left it, such as a shared SSH connection, included: they come to this process and are
ended with it. `memory_mb` is the largest sum of their proportional shares (PSS: memory that forks
share counts once), looked at ten times a second.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.1


def main(out: str, *command: str) -> int:
    """Run, look, end what is left, and write what it took."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "processes that leave their parent cannot be kept")
    began, most_kib = time.monotonic(), 0
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    alive = os.pidfd_open(started.pid)
    while (code := _ended(started.pid)) is None:
        most_kib = max(most_kib, sum(map(_share_kib, below(os.getpid()))))
        select.select([alive], [], [], _LOOK_S)
    wall_s = time.monotonic() - began
    started.returncode = code
    _end_the_rest()
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "wall_s": wall_s,
        "cpu_s": took.ru_utime + took.ru_stime,
        "memory_mb": most_kib * 1024 / 1e6,
    }
    Path(out).write_text(json.dumps(figures))
    return code


def _ended(command: int) -> int | None:
    """Take leave of all that ended; the command's exit status once it is among them."""
    code = None
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == command:
                code = os.waitstatus_to_exitcode(found[1])
    return code


def below(process: int) -> Iterator[int]:
    """Every process that this one, or one of those, started and that is alive."""
    children: list[str] = []
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            children += (task / "children").read_text().split()
    for child in map(int, children):
        yield child
        yield from below(child)


def _share_kib(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _end_the_rest() -> None:
    while rest := [*below(os.getpid())]:
        for process in rest:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        with suppress(ChildProcessError):
            os.wait()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
