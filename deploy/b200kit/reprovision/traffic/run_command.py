"""A scheduler's command-line program, run on the controller."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from b200kit.report.document import clean
from b200kit.reprovision.actions import ActionFailed

WITHIN_S = 120.0
_MOST_CHARACTERS = 200
# Defaults for squeue's options that a person may have set: one that shows only his own jobs would
# hide those of everybody else.
_NOT_PASSED_ON = "SQUEUE_"


def run(
    argv: Sequence[str], within_s: float = WITHIN_S, environment: Mapping[str, str] | None = None
) -> str:
    """What it prints on stdout. Raises ActionFailed, one line."""
    program = argv[0]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(_NOT_PASSED_ON)}
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            env={**inherited, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ActionFailed(f"{program} gave no answer within {within_s:g} s") from None
    except OSError as error:
        raise ActionFailed(f"{program} cannot be run on the controller: {error.strerror}") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["it output nothing"]
        raise ActionFailed(f"{program} exited {done.returncode}: {one_line(output[-1])}")
    return done.stdout


def one_line(text: str) -> str:
    """A text from elsewhere as an argument or a message can hold it: short, printable characters.

    A finding has what a node said, and no argument may have a NUL or half a surrogate pair in it.
    """
    return clean(text)[:_MOST_CHARACTERS]
