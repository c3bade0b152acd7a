"""A command of the site's own, run on the controller: `COMMAND VERB NODE [ARGUMENT]`.

One contract for who sends a node work, for its power and for its images (docs/reprovision.md, and
b200-slurm and others in contrib/). What else a command needs to know is in its environment, a
secret above all, never among its arguments. Exit status 0: done, the answer is its last line on
standard output. 2: refused, for a reason that a person must remove. Any other: failed. The last
line on standard error says why; those before say how far it is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from b200kit.report.document import clean
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.run import places
from b200kit.run.node import duration

WITHIN_S = 120.0
_REFUSED = 2
_LOOK_S = 1.0
_MOST_CHARACTERS = 200
Say = Callable[[str], None]


def name(command: Sequence[str]) -> str:
    """What a command is called in messages."""
    return Path(command[0]).name


def run(
    command: Sequence[str],
    *words: str,
    environment: dict[str, str] | None = None,
    within_s: float = WITHIN_S,
    say: Say = lambda line: None,
) -> str:
    """Its answer, "" for none. Raises ActionRefused or ActionFailed, one line. Ends with all that
    it has started where its time is over.
    """
    who = f"{name(command)} {words[0]}"
    end, last = time.monotonic() + within_s, ""
    # Files, so that it continues though nobody reads.
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as progress:
        try:
            process = subprocess.Popen(
                [*command, *words],
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=progress,
                env={**os.environ, "PATH": places.programs(), **(environment or {})},
                start_new_session=True,
            )
        except OSError as error:
            text = f"{command[0]} cannot be run on the controller: {error.strerror}"
            raise ActionRefused(text) from None
        read, code = 0, None
        try:
            while code is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(_LOOK_S)
                lines, read = _new_lines(progress, read, ended=code is not None)
                for line in lines:
                    say(last := line)
                if code is None and time.monotonic() > end:
                    after = f"; its last line: {last}" if last else ""
                    raise ActionFailed(f"{who} did not end within {duration(within_s)}{after}")
        finally:
            if code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            failure = ActionRefused if code == _REFUSED else ActionFailed
            ending = f" exited {code}" if code > 0 else f" was ended by signal {-code}"
            raise failure(f"{who}: {last}" if last and code > 0 else f"{who}{ending}")
        answer.seek(0)
        said = answer.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(said) if line.strip()), "")


def one_line(text: str) -> str:
    """A text from elsewhere as a variable or a message can hold it: short and printable."""
    return clean(text)[:_MOST_CHARACTERS]


def _new_lines(progress: IO[bytes], read: int, ended: bool) -> tuple[list[str], int]:
    """What is new since *read*, and how far that goes; the end of a line may still be missing."""
    new = os.pread(progress.fileno(), 1 << 20, read)
    whole = new if ended else new[: new.rfind(b"\n") + 1]
    lines = [one_line(line) for line in whole.decode(errors="replace").splitlines()]
    return [line for line in lines if line], read + len(whole)
