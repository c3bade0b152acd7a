"""A proxy between two clients and one server that notes when every byte passed it.

    python -m tests.bench.wire PORT OUT

Listens on two ports of 127.0.0.1, prints them, passes everything on to PORT, and ends when its
standard input does; OUT then has, for either port, a list of connections, each a list of
[monotonic seconds, whether it went to the server, text].

What a client reports of a request is held against what passed here for that very request: however
busy the machine and however slow the server was, it was so for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from b200kit.node.client import client_health
from tests.bench.sent import Sent

Event = list[Any]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connection = list[Event]
_EVENT = re.compile(r"data: (\{.*?\})\r?\n\r?\n", re.DOTALL)


def main(port: str, out: str) -> None:
    """Pass on until standard input ends."""
    client_health.claim_realtime()
    asyncio.run(_between(int(port), Path(out)))


async def _between(port: int, out: Path) -> None:
    seen: list[list[Connection]] = [[], []]
    servers = [await asyncio.start_server(_passing(s, port), "127.0.0.1", 0) for s in seen]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    out.write_text(json.dumps(seen))
    os._exit(0)  # whoever is still connected has what it wants


def _passing(connections: list[Connection], port: int) -> Callable[..., Any]:
    kept: set[object] = set()  # asyncio itself keeps no task alive

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        log: Connection = []
        connections.append(log)
        # The request is stamped when it comes, not when the server's side is connected, too.
        server = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", port))
        kept.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(_up(reader, server, log), _down(server, writer, log))

    return serve


async def _up(
    reader: asyncio.StreamReader, server: asyncio.Future[Streams], log: Connection
) -> None:
    while data := await reader.read(1 << 16):
        log.append([time.perf_counter(), True, data.decode("latin-1")])
        (await server)[1].write(data)
    (await server)[1].write_eof()


async def _down(
    server: asyncio.Future[Streams], writer: asyncio.StreamWriter, log: Connection
) -> None:
    answers, _ = await server
    while data := await answers.read(1 << 16):
        writer.write(data)
        log.append([time.perf_counter(), False, data.decode("latin-1")])
    writer.close()


def requests(connections: Sequence[Connection]) -> list[Sent]:
    """The chat completions that passed, by when they came, with vLLM's definitions applied here."""
    found = [one for log in connections for one in _exchanges(log)]
    chats = [_sent(up, down) for up, down in found if "/chat/completions" in up[0][2]]
    return sorted((one for one in chats if one), key=lambda one: one.at)


def _exchanges(log: Connection) -> Iterator[tuple[list[Event], list[Event]]]:
    """A connection's requests with their answers: a client speaks again when it was answered."""
    up: list[Event] = []
    down: list[Event] = []
    for event in log:
        if event[1] and down:
            yield up, down
            up, down = [], []
        (up if event[1] else down).append(event)
    if up and down:
        yield up, down


def _sent(up: Sequence[Event], down: Sequence[Event]) -> Sent | None:
    """One streamed answer; None for one that is not, such as a correctness check's."""
    at, tokens = up[0][0], 0
    times: list[float] = []
    for moment, document in _documents(down):
        usage, choices = document.get("usage"), document.get("choices")
        tokens = usage["completion_tokens"] if usage else tokens
        if choices and (times or choices[0]["delta"].get("content")):
            times.append(moment)
    if not times:
        return None
    gaps = tuple(after - before for before, after in pairwise(times))
    return Sent(at, times[0] - at, times[-1] - at, tokens, gaps)


def _documents(down: Sequence[Event]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Every streamed document, and when its last byte passed."""
    text, ends, position = "", [], 0
    for moment, _, data in down:
        text += data
        ends.append((len(text), moment))
    for match in _EVENT.finditer(text):
        while ends[position][0] < match.end():
            position += 1
        yield ends[position][1], json.loads(match[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
