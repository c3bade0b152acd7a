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
_HEALTH = HttpDeadlines(connect=0.5, idle=0.5, total=1.0)


class Balancer:
    """Which endpoints are healthy, as they were seen last."""

    def __init__(self, urls: list[str], key: str) -> None:
        self.endpoints = [Endpoint(url, key) for url in urls]
        own = [url.replace(f":{_FLEET_PORT}", f":{_OWN_PORT}") for url in urls]
        self.nodes = [Endpoint(url, key) for url in own]
        self.healthy = list(self.endpoints)
        self.serving: list[tuple[float, int]] = []
        self._turn = itertools.count()

    def next(self) -> Endpoint:
        """The next healthy endpoint; whichever where none is."""
        among = self.healthy or self.endpoints
        return among[next(self._turn) % len(among)]

    async def watch(self, stop: Path) -> None:
        """Look at all of them again and again."""
        while not stop.exists():
            began = time.time()
            found = await asyncio.gather(*map(_is_healthy, [*self.endpoints, *self.nodes]))
            half = len(self.endpoints)
            self.healthy = [e for e, well in zip(self.endpoints, found[:half], strict=True) if well]
            self.serving.append((began, sum(found[half:])))
            await asyncio.sleep(max(0.0, began + _LOOK_S - time.time()))


async def _is_healthy(endpoint: Endpoint) -> bool:
    return _status(await endpoint.get("/health", _HEALTH)) == 200


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
