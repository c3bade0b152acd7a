"""A program on this machine that speaks for another: what it prints and how long it may take."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread, Timer
from typing import IO

_ERROR_BYTES = 64 << 10
_END_S = 5


@dataclass(frozen=True)
class Answer:
    """How it ended; *code* is None where its time was up, and *out* has at most the limit."""

    code: int | None
    out: bytes
    err: str
    exceeded: bool


def converse(command: Sequence[str], stdin: bytes, limit_s: float, most_bytes: int) -> Answer:
    """Run *command* with *stdin*, and end it when it prints too much or its time is up."""
    errors: list[bytes] = []
    late: list[bool] = []
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:

        def end() -> None:
            late.append(True)
            process.kill()

        timer = Timer(limit_s, end)
        timer.start()
        helpers = [
            Thread(target=_feed, args=(process.stdin, stdin), daemon=True),
            Thread(target=lambda: errors.append(_drained(process.stderr)), daemon=True),
        ]
        for helper in helpers:
            helper.start()
        out = process.stdout.read(most_bytes + 1) if process.stdout else b""
        exceeded = len(out) > most_bytes
        if exceeded:
            process.kill()
        code = process.wait()
        timer.cancel()
        for helper in helpers:
            helper.join(_END_S)
    err = b"".join(errors).decode("utf-8", "replace")
    return Answer(None if late else code, out[:most_bytes], err, exceeded)


def _feed(pipe: IO[bytes] | None, content: bytes) -> None:
    if pipe is not None:
        with suppress(OSError), pipe:
            pipe.write(content)


def _drained(pipe: IO[bytes] | None) -> bytes:
    """The beginning of what is said; the rest is read and dropped, so that nothing waits."""
    if pipe is None:
        return b""
    kept = pipe.read(_ERROR_BYTES)
    while pipe.read(_ERROR_BYTES):
        pass
    return kept
