"""Runs beside the controller: streams through the fleet's endpoints until a file appears.

    python -m tests.e2e.tools.fleet_streams MODEL KEY_FILE STREAMS TOKENS RESULT URL...

Each URL is a node's endpoint before the whole fleet. What spreads clients over them is what a
virtual address does: an endpoint whose health is not 200 gets nothing new, and one that refuses a
request before it was begun is left for the next. Every 100 ms it is counted how many of the nodes'
own endpoints, at the port before, would take a request. RESULT gets {"streams": [{"sent", "ended",
"ttft", "error", "tokens"}], "serving": [[time, count]]} (seconds since the epoch) once RESULT.stop
is there.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from b200kit.node.client import client_health
from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.http import Exchange, HttpDeadlines
from b200kit.node.client.message import HttpError

_LOOK_S = 0.1
# What is tried is whether a stream is lost, and not how many the machine can carry.
_PAUSE_S = 0.3
_OWN_PORT, _FLEET_PORT = 8000, 8100
_BALANCING = HttpDeadlines(connect=0.5, idle=0.5, total=1.0)
# A node that refuses is out at once. One that says nothing for as long as this is out, too: a busy
# machine lets a node that serves answer a second late.
_COUNTING = HttpDeadlines(connect=3.0, idle=3.0, total=3.0)


class Looked:
    """An endpoint, and whether it was healthy at the last look at it."""

    def __init__(self, endpoint: Endpoint, deadlines: HttpDeadlines) -> None:
        self.endpoint, self.healthy = endpoint, True
        self._deadlines = deadlines

    async def watch(self, stop: Path) -> None:
        """Look again and again: an endpoint that is slow to answer makes no other one wait."""
        while not stop.exists():
            began = time.monotonic()
            answer = await self.endpoint.get("/health", self._deadlines)
            self.healthy = _status(answer) == 200
            await asyncio.sleep(max(0.0, began + _LOOK_S - time.monotonic()))


class Balancer:
    """Endpoints of the whole fleet for the streams, and each node's own, which are counted."""

    def __init__(self, urls: list[str], key: str) -> None:
        self.endpoints = [Endpoint(url, key) for url in urls]
        own = [url.replace(f":{_FLEET_PORT}", f":{_OWN_PORT}") for url in urls]
        self._fleet = [Looked(endpoint, _BALANCING) for endpoint in self.endpoints]
        self._nodes = [Looked(Endpoint(url, key), _COUNTING) for url in own]
        self.serving: list[tuple[float, int]] = []
        self._turn = itertools.count()

    def next(self) -> Endpoint:
        """The next healthy endpoint; whichever where none is."""
        among = [each.endpoint for each in self._fleet if each.healthy] or self.endpoints
        return among[next(self._turn) % len(among)]

    async def watch(self, stop: Path) -> None:
        """Look at all of them, and count, until stopped."""
        looks = (each.watch(stop) for each in (*self._fleet, *self._nodes))
        await asyncio.gather(self._count(stop), *looks)

    async def _count(self, stop: Path) -> None:
        while not stop.exists():
            await asyncio.sleep(_LOOK_S)
            self.serving.append((time.time(), sum(each.healthy for each in self._nodes)))


def _status(exchange: Exchange) -> int | None:
    """The status of an answer; None where none came."""
    try:
        return exchange.status
    except HttpError:
        return None


async def _stream(balancer: Balancer, request: ChatRequest) -> dict[str, Any]:
    """One stream; one that was refused before it began is sent to the next endpoint."""
    sent = time.time()
    for _ in range(3 * len(balancer.endpoints)):
        answer = await chat(balancer.next(), request)
        if _status(answer.raw) not in (503, None):
            break
        await asyncio.sleep(_LOOK_S)
    record = answer.record()
    first = record.chunks[0].at - record.sent if record.chunks else None
    entry = {"sent": sent, "ended": time.time(), "ttft": first, "error": record.error}
    return {**entry, "tokens": record.completion_tokens}


def main(model: str, key: str, streams: str, tokens: str, result: str, *urls: str) -> None:
    """Load until stopped."""
    balancer, out = Balancer(list(urls), Path(key).read_text().strip()), Path(result)
    found: list[dict[str, Any]] = []

    async def one(number: int) -> None:
        for count in itertools.count():
            if out.with_suffix(".stop").exists():
                return
            prompt = f"tell me about {number} and {count}"
            request = ChatRequest(model, prompt, int(tokens), salt=f"{number}-{count}")
            found.append(await _stream(balancer, request))
            out.with_suffix(".count").write_text(str(len(found)))
            await asyncio.sleep(_PAUSE_S)

    async def everything() -> None:
        watching = balancer.watch(out.with_suffix(".stop"))
        await asyncio.gather(watching, *(one(number) for number in range(int(streams))))

    client_health.claim_realtime()
    asyncio.run(everything())
    document = json.dumps({"streams": found, "serving": balancer.serving})
    out.with_suffix(".new").write_text(document)
    out.with_suffix(".new").rename(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
