"""Load: an open loop that keeps a schedule whatever the server does, and a closed loop.

The open loop is what latency is measured with: requests go out when they are due, not when an
earlier one has come back, so a server that freezes is seen by every request that was due in that
time (no coordinated omission). The closed loop is for warming up and for capacity: it waits for the
server, so a server that freezes is asked nothing in that time and its percentiles hide it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Send = Callable[[int, float], Awaitable[T]]
"""Sends request number i that is due at perf_counter time t, and returns what came of it."""


def poisson(rate: float, requests: int, seed: int) -> list[float]:
    """Arrival times in seconds from the start: independent exponential gaps, seeded.

    Scaled to end at `requests / rate` exactly, as `vllm bench serve` does, so that every seed
    asks for the same mean rate. Raises ValueError for a rate that is not positive.
    """
    if rate <= 0:
        raise ValueError(f"rate must be above 0 requests/s, not {rate}")
    chooser = random.Random(seed)  # noqa: S311 (arrival times, not secrets)
    at, offsets = 0.0, []
    for _ in range(requests):
        at += chooser.expovariate(rate)
        offsets.append(at)
    scale = requests / rate / at if at else 1.0
    return [offset * scale for offset in offsets]


def constant(rate: float, requests: int) -> list[float]:
    """Arrival times in seconds from the start, all gaps alike: 1/rate, 2/rate, ... requests/rate.

    Raises ValueError for a rate that is not positive.
    """
    if rate <= 0:
        raise ValueError(f"rate must be above 0 requests/s, not {rate}")
    return [(number + 1) / rate for number in range(requests)]


@dataclass(frozen=True)
class Arrival:
    """How requests come: an open loop at `rate` a second, or `concurrency` at a time (closed).

    even: constant gaps instead of Poisson arrivals. An open loop has no cap of any kind.
    """

    rate: float | None = 4.0
    even: bool = False
    concurrency: int | None = None

    def __str__(self) -> str:
        """In words, for whoever reads the numbers."""
        if self.concurrency is not None:
            return f"closed loop, {self.concurrency} at a time: hides waiting before sending"
        kind = "constant" if self.even else "Poisson"
        return f"{kind}, {self.rate:g} requests/s, open loop, no concurrency cap"

    async def run(self, requests: int, seed: int, send: Send[T]) -> list[T]:
        """Send them all; results in the order of their numbers. Raises ValueError for no rate."""
        if self.concurrency is not None:
            return await closed_loop(self.concurrency, requests, send)
        rate = self.rate or 0.0
        offsets = constant(rate, requests) if self.even else poisson(rate, requests, seed)
        return await open_loop(offsets, send)


async def open_loop(offsets: Sequence[float], send: Send[T]) -> list[T]:
    """Send each request at its offset (seconds from now); results in the schedule's order."""
    start = time.perf_counter()

    async def one(number: int, due: float) -> T:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return await send(number, due)

    jobs = [asyncio.ensure_future(one(i, start + offset)) for i, offset in enumerate(offsets)]
    return await _all(jobs)


async def closed_loop(concurrency: int, requests: int, send: Send[T]) -> list[T]:
    """`requests` requests, `concurrency` at a time, each sent when an earlier one is back."""
    numbers = iter(range(requests))
    results: dict[int, T] = {}

    async def worker() -> None:
        for number in numbers:
            results[number] = await send(number, time.perf_counter())

    await _all([asyncio.ensure_future(worker()) for _ in range(concurrency)])
    return [results[number] for number in sorted(results)]


async def _all(jobs: Sequence[asyncio.Future[T]]) -> list[T]:
    """Gather; when one raises or we are cancelled, none is left running."""
    try:
        return await asyncio.gather(*jobs)
    finally:
        for job in jobs:
            job.cancel()
