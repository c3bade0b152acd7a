"""The client against a player's known schedule, in a process of its own: prints what it saw.

    python -m tests.bench.accuracy URL STREAMS REQUESTS TOKENS [--cpu N] [--work-ms MS]

An error is the client's time minus the server's, in milliseconds, from stamps of one clock:
of TTFT, (first output seen - sent) - (first output sent by the server - request taken by it), the
connection's set-up included; of a gap, the gap seen minus the gap between the server's sendings.
The server's own lateness is in neither. `truth` is the summary of the same run as the server saw
it, each request from when it was taken. With --work-ms the client does at each piece what ours
leaves for later, as one does that parses while it reads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

from b200kit.node.client import client_health, http
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.client_health import ClientLimits
from b200kit.node.client.formulas import RequestRecord, Run, connect_delay, schedule_delay, summary
from b200kit.node.client.percentiles import percentile
from b200kit.node.latency.document import bench_figures
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.serving import Objective
from tests.unit.node.client.scores import Score, even

TTFT, SLOW, GAP = 0.040, 0.160, 0.010
"""First token of three requests in four, of the fourth, and all gaps; seconds."""
GOAL = Objective(ttft_ms=100, tpot_ms=100)


def score(number: int, tokens: int) -> Score:
    """What the server plays for the number-th request."""
    return even(SLOW if number % 4 == 3 else TTFT, GAP, tokens)


def request(number: int, tokens: int) -> ChatRequest:
    """A request that brings its own score."""
    extra: dict[str, object] = {"score": {"name": str(number), "steps": score(number, tokens)}}
    return ChatRequest("score", "play", tokens, extra=extra)


async def log(endpoint: Endpoint) -> dict[str, Any]:
    """What the player noted."""
    document: dict[str, Any] = json.loads((await endpoint.get("/log")).body())
    return document


def errors(record: RequestRecord, play: dict[str, Any]) -> tuple[float, list[float]]:
    """Errors of one request's TTFT and of its gaps, in milliseconds."""
    seen = [chunk.at for chunk in record.chunks if chunk.output]
    sent = play["sent"][1 : 1 + len(seen)]
    ttft = (seen[0] - record.sent) - (sent[0] - play["taken"])
    gaps = [
        (b - a) - (d - c) for (a, b), (c, d) in zip(pairwise(seen), pairwise(sent), strict=True)
    ]
    return ttft * 1000, [abs(gap) * 1000 for gap in gaps]


def as_sent(play: dict[str, Any], record: RequestRecord) -> RequestRecord:
    """The same request by the server's clock: from its being taken to each sending."""
    sent = play["sent"][1 : 1 + len(record.chunks) - 1]
    chunks = [replace(chunk, at=at) for chunk, at in zip(record.chunks[1:], sent, strict=True)]
    return replace(record, scheduled=play["taken"], sent=play["taken"], chunks=tuple(chunks))


def concurrency(records: list[RequestRecord]) -> int:
    """The most requests that were under way at once."""
    moves = [(record.sent, 1) for record in records]
    moves += [(record.chunks[-1].at, -1) for record in records]
    under_way = most = 0
    for _, move in sorted(moves):
        under_way += move
        most = max(most, under_way)
    return most


async def measure(url: str, streams: int, requests: int, tokens: int) -> dict[str, Any]:
    """Constant arrivals at the rate that keeps so many streams open."""
    endpoint, mean = Endpoint(url), (3 * TTFT + SLOW) / 4 + GAP * (tokens - 1)
    arrival = Arrival(streams / mean, even=True)
    watch = client_health.Watch(client_health.claim_realtime())

    async def send(number: int, due: float) -> ChatAnswer:
        return await chat(endpoint, made[number], None, due)

    made = [request(number, tokens) for number in range(requests)]
    await arrival.run(8, 0, send)
    async with watch.running():
        before = time.process_time()
        answers = await arrival.run(requests, 0, send)
        spent = time.process_time() - before
    records = [answer.record() for answer in answers]
    seen = await log(endpoint)
    plays = {play["name"]: play for play in seen["plays"]}
    pairs = [errors(record, plays[str(i)]) for i, record in enumerate(records)]
    ttfts = [abs(ttft) for ttft, _ in pairs]
    gaps = [gap for _, more in pairs for gap in more]
    health, named = watch.health(), [(str(i), record) for i, record in enumerate(records)]
    late = [value * 1000 for value in seen["late"]]
    truth = tuple(as_sent(plays[r], record) for r, record in named)
    return {
        "ttft_error_ms": {p: percentile(ttfts, p) for p in (50, 99)},
        "gap_error_ms": {p: percentile(gaps, p) for p in (50, 99)},
        "server_late_ms": {p: percentile(late, p) for p in (50, 99)},
        "server_run_delay_ms": seen["run_delay_ms"],
        "wall_ms": health.wall_ms,
        "streams": concurrency(records),
        "samples": [len(ttfts), len(gaps)],
        "schedule_delay_ms": unstructure(schedule_delay(records)),
        "connect_ms": unstructure(connect_delay(records)),
        "cpu_us_a_token": spent * 1e6 / (requests * tokens),
        "failed": len(Run(tuple(records)).errors),
        "starved": health.starved(ClientLimits()),
        "client": unstructure(health.figures(ClientLimits(), "")),
        "summary": bench_figures(summary(Run(tuple(records)), GOAL)),
        "truth": bench_figures(summary(Run(truth), GOAL)),
    }


def work_at_each_piece(seconds: float) -> None:
    """Make the client busy for so long before it stamps a piece."""
    read = http._Collector.data_received

    def busy(self: http._Collector, data: bytes) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        read(self, data)

    http._Collector.data_received = busy  # type: ignore[method-assign]


def main() -> None:
    """Print the findings as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("streams", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("tokens", type=int)
    parser.add_argument("--cpu")
    parser.add_argument("--work-ms", type=float, default=0.0)
    options = parser.parse_args()
    if options.work_ms:
        work_at_each_piece(options.work_ms / 1000)
    client_health.pin(options.cpu)
    found = asyncio.run(measure(options.url, options.streams, options.requests, options.tokens))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
