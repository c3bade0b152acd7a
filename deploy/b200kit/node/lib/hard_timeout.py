"""A helper program that gets its time and no more, even where no signal ends it.

What asks a sick GPU may sit in the driver, where SIGKILL does not reach it; waiting for its end, as
subprocess.run does after its time-out, would take as long as the fault.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

GRACE_S = 2.0
ASKED_S = 10.0
"""Seconds that a program has to end by itself once it is asked to."""


def run(
    argv: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Its exit status and output. Raises OSError when there is no such program or time is up.

    It ends with all that it started, also when this program is interrupted.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=within_s)
    except BaseException as error:
        _abandon(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise TimeoutError(f"{argv[0]} took more than {within_s:g} s") from None
        raise
    return subprocess.CompletedProcess(argv, child.returncode, out, err)


def into(
    argv: Sequence[str],
    within_s: float,
    out: BinaryIO,
    err: BinaryIO,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> int:
    """Its exit status; what it prints goes into two files. Raises OSError as `run` does.

    A program whose time is up is asked to end first, so that it may say why and free the hardware.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        status = child.wait(timeout=within_s)
    except BaseException as error:
        if isinstance(error, subprocess.TimeoutExpired):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(child.pid, signal.SIGTERM)
                child.wait(timeout=ASKED_S)
            _abandon(child)
            raise TimeoutError(f"{argv[0]} took more than {within_s:g} s") from None
        _abandon(child)
        raise
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # what it left running would load the next test
    return status


def _abandon(child: subprocess.Popen[bytes]) -> None:
    """Kill it with all that it started; one that stays is left behind."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(timeout=GRACE_S)


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a program that failed says of it."""
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else f"it exited {done.returncode} and said nothing"
