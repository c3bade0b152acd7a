"""Scores for the player: what a server with known answers sends, and when."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[4]
HEAD = (
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    "connection: close\r\n\r\n"
)
LAST = "0\r\n\r\n"
Score = list[list[Any]]


@contextlib.contextmanager
def playing(cpu: int | None = None, address: str = "127.0.0.1") -> Iterator[str]:
    """The base URL of a player in a process of its own, which ends with the block."""
    where = [] if cpu is None else ["--cpu", str(cpu)]
    command = [sys.executable, "-m", "tests.unit.node.client.player", *where, "--address", address]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://{address}:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()
            server.wait(300)


def framed(text: str) -> str:
    """One HTTP chunk."""
    return f"{len(text.encode()):x}\r\n{text}\r\n"


def event(document: object) -> str:
    """One server-sent event."""
    return f"data: {document if isinstance(document, str) else json.dumps(document)}\n\n"


def delta(reason: str | None = None, **members: object) -> str:
    """The event of a chunk with a choice."""
    choice = {"index": 0, "delta": members, "finish_reason": reason}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


ROLE = delta(role="assistant", content="")
DONE = event("[DONE]")


def usage(tokens: int, prompt: int = 20) -> str:
    """The event that counts."""
    counts = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}
    return event({"choices": [], "usage": counts})


def stream(times: Sequence[float], tokens: int | None = None) -> Score:
    """A correct answer: role at once, a chunk of output at each time, then usage and the end."""
    outputs = [[at, framed(delta(content=f"w{i} "))] for i, at in enumerate(times[:-1])]
    last = [times[-1], framed(delta("length", content="end"))]
    close = framed(usage(len(times) if tokens is None else tokens)) + framed(DONE) + LAST
    return [[0.0, HEAD + framed(ROLE)], *outputs, last, [times[-1], close], [times[-1], "end"]]


def even(ttft: float, gap: float, tokens: int) -> Score:
    """A correct answer whose chunks come at constant gaps."""
    return stream([ttft + number * gap for number in range(tokens)])
