"""A scheduler's command-line program, run on the controller."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from b200kit.reprovision.actions import ActionFailed

WITHIN_S = 120.0


def run(
    argv: Sequence[str], within_s: float = WITHIN_S, environment: Mapping[str, str] | None = None
) -> str:
    """What it prints on stdout. Raises ActionFailed, one line."""
    program = argv[0]
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ActionFailed(f"{program} gave no answer within {within_s:g} s") from None
    except OSError as error:
        raise ActionFailed(f"{program} cannot be run on the controller: {error.strerror}") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip().splitlines() or ["it output nothing"]
        raise ActionFailed(f"{program} exited {done.returncode}: {output[-1].strip()[:200]}")
    return done.stdout
