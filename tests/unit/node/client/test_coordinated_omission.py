"""A server that freezes for 2 s: our percentiles show it, those of a naive closed loop do not."""

from __future__ import annotations

import asyncio

import pytest

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Answer, ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import RequestRecord, timing
from b200kit.node.client.percentiles import percentile
from tests.unit.node.client.scores import Score, even, playing

pytestmark = pytest.mark.alone

FREEZE_S, AT = 2.0, 25
REQUESTS, RATE = 150, 50.0


def score(number: int) -> Score:
    """An answer of 11 ms; at the 25th request the whole server stands still first."""
    steps = even(0.010, 0.001, 2)
    return [[0.0, {"freeze": FREEZE_S}], *steps] if number == AT else steps


def offer(arrival: Arrival) -> list[RequestRecord]:
    """The records of one run against a server of its own."""

    async def send(number: int, due: float) -> Answer:
        extra: dict[str, object] = {"score": {"name": str(number), "steps": score(number)}}
        return await chat(Endpoint(url), ChatRequest("m", "p", 2, extra=extra), None, due)

    with playing() as url:
        answers = asyncio.run(arrival.run(REQUESTS, 1, send))
    return [answer.record() for answer in answers]


def ttfts(records: list[RequestRecord]) -> list[float]:
    """TTFT in seconds of every request; all of them completed."""
    found = [timing(record) for record in records]
    assert all(item is not None for item in found), [record.error for record in records]
    return [item.ttft for item in found if item]


def test_a_freeze_is_in_our_percentiles_and_not_in_a_closed_loops() -> None:
    ours = ttfts(offer(Arrival(RATE, even=True)))
    naive = ttfts(offer(Arrival(concurrency=1)))
    # 100 of 150 requests were due in those 2 s; each waited for what was left of them.
    assert sum(value > 0.1 for value in ours) >= 90
    assert percentile(ours, 95) > 1.5
    # The closed loop sent none in that time: one request in 150 saw it, the percentiles did not.
    assert max(naive) >= FREEZE_S
    assert percentile(naive, 95) < 0.5
    assert percentile(naive, 95) < percentile(ours, 95) / 3
    assert percentile(naive, 50) < percentile(ours, 50)


def test_what_a_client_is_late_is_told_besides_and_in_the_queue_inclusive_latency() -> None:
    async def blocked() -> list[RequestRecord]:
        async def send(number: int, due: float) -> Answer:
            extra: dict[str, object] = {"score": {"name": "", "steps": even(0.01, 0.001, 2)}}
            return await chat(Endpoint(url), ChatRequest("m", "p", 2, extra=extra), None, due - 1.0)

        return [answer.record() for answer in await Arrival(50.0, even=True).run(5, 1, send)]

    with playing() as url:
        records = asyncio.run(blocked())
    assert all(record.sent - record.scheduled >= 1.0 for record in records)
    assert min(ttfts(records)) < 1.0
