"""`python -m tests.bench.gateway_times STREAMS ROUNDS URL...`: TTFT over each URL, in one run.

The URLs take turns, so that whatever else this machine does falls on all of them. Prints a JSON
list of milliseconds for each; exits 1 when a stream was not whole.
"""

from __future__ import annotations

import asyncio
import json
import sys

from b200kit.node.client import client_health
from b200kit.node.client.arrivals import closed_loop
from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from tests.unit.gateway.mock import CHUNKS

KEY = "node-key"


async def ttfts(url: str, streams: int) -> list[float]:
    """TTFT in milliseconds of as many streams at a time."""
    request = ChatRequest("mock", "a" * 1000, CHUNKS)
    answers = await closed_loop(
        streams, streams, lambda number, due: chat(Endpoint(url, KEY), request, scheduled=due)
    )
    found = []
    for answer in answers:
        record = answer.record()
        if record.error:
            raise SystemExit(f"{url}: {record.error}")
        found.append((record.chunks[0].at - record.sent) * 1000)
    return found


async def main(streams: int, rounds: int, urls: list[str]) -> list[list[float]]:
    """All of it; the first round counts nowhere."""
    found: list[list[float]] = [[] for _ in urls]
    for number in range(rounds + 1):
        for times, url in zip(found, urls, strict=True):
            taken = await ttfts(url, streams)
            times += taken if number else []
    return found


if __name__ == "__main__":
    client_health.claim_realtime()
    given = sys.argv[1:]
    print(json.dumps(asyncio.run(main(int(given[0]), int(given[1]), given[2:]))))
