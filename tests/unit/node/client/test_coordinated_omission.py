"""A server that freezes for 2 s: our percentiles show it, those of a naive closed loop do not.

On a clock of the test's own, so that every figure is exact (`make bench` has them on a real one).
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from b200kit.node.client import arrivals, http
from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import Chunk, RequestRecord, schedule_delay, timing
from b200kit.node.client.message import SseSplitter
from b200kit.node.client.percentiles import percentile
from b200kit.node.lib import documents
from tests.unit.node.client.scores import even, playing

FREEZE_S, AT = 2.0, 25
REQUESTS, RATE = 150, 50.0
TTFT_S, GAP_S = 0.010, 0.001


class Clock(selectors.DefaultSelector):
    """Time that passes only while everybody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        """What is ready at once; else the time is up."""
        found = super().select(0)
        if not found and timeout:
            self.now += timeout
        return found

    def read(self) -> float:
        """Now."""
        return self.now


class Server:
    """Answers every request 10 ms after it came; at the 25th it stands still for 2 s first."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.frozen_until = 0.0

    async def answer(self, number: int, due: float) -> RequestRecord:
        """One request that is sent now."""
        sent = self.clock.now
        if number == AT:
            self.frozen_until = sent + FREEZE_S
        first = max(sent, self.frozen_until) + TTFT_S
        last = first + GAP_S
        await asyncio.sleep(last - self.clock.now)
        chunks = (Chunk(first), Chunk(last))
        return RequestRecord(due, sent, chunks, 1, 2, "length", last)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the load and of the server."""
    made = Clock()
    monkeypatch.setattr(arrivals, "time", SimpleNamespace(perf_counter=made.read))
    return made


def on(clock: Clock, work: Coroutine[Any, Any, list[RequestRecord]]) -> list[RequestRecord]:
    """What comes of it on an event loop that lives by the clock."""
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = clock.read  # type: ignore[method-assign]
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def offer(clock: Clock, arrival: Arrival) -> list[RequestRecord]:
    """The records of one run against a server of its own."""
    return on(clock, arrival.run(REQUESTS, 1, Server(clock).answer))


def ttfts(records: list[RequestRecord]) -> list[float]:
    """TTFT in seconds of every request; all of them completed."""
    return [item.ttft for item in map(timing, records) if item]


def test_a_freeze_is_in_our_percentiles(clock: Clock) -> None:
    ours = ttfts(offer(clock, Arrival(RATE, even=True)))
    # 100 of 150 requests were due in those 2 s; each waited for what was left of them.
    assert len(ours) == REQUESTS
    assert sum(value > TTFT_S + 0.001 for value in ours) == FREEZE_S * RATE
    assert percentile(ours, 95) > 1.5
    assert max(ours) == pytest.approx(FREEZE_S + TTFT_S)


def test_a_closed_loop_hides_it(clock: Clock) -> None:
    naive = ttfts(offer(clock, Arrival(concurrency=1)))
    # It sent none in that time: one request in 150 saw the freeze, the percentiles did not.
    assert max(naive) == pytest.approx(FREEZE_S + TTFT_S)
    assert percentile(naive, 95) == pytest.approx(TTFT_S)


def test_requests_go_out_when_they_are_due_whatever_the_server_does(clock: Clock) -> None:
    records = offer(clock, Arrival(RATE, even=True))
    assert schedule_delay(records).max == pytest.approx(0.0, abs=1e-6)
    gaps = [after.sent - before.sent for before, after in pairwise(records)]
    assert gaps == pytest.approx([1 / RATE] * (REQUESTS - 1))


def test_what_a_client_is_late_is_told_besides_and_not_in_its_ttft(clock: Clock) -> None:
    server = Server(clock)

    async def late(number: int, due: float) -> RequestRecord:
        return await server.answer(number, due - 1.0)

    records = on(clock, Arrival(RATE, even=True).run(5, 1, late))
    assert ttfts(records) == pytest.approx([TTFT_S] * 5)
    assert schedule_delay(records).p50 == pytest.approx(1000.0)


def test_nothing_is_decoded_before_the_answer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    received, parse, feed = http._Collector.data_received, documents.parse, SseSplitter.feed

    def stamped(self: http._Collector, data: bytes) -> None:
        order.append("piece")
        received(self, data)

    def decoded(*raw: Any) -> Any:
        order.append("decode")
        return parse(*raw)

    def split(self: Any, data: bytes) -> Any:
        order.append("split")
        return feed(self, data)

    monkeypatch.setattr(http._Collector, "data_received", stamped)
    monkeypatch.setattr(SseSplitter, "feed", split)
    score = even(0.02, 0.02, 6)
    with playing() as url:
        request = ChatRequest("m", "p", 6, extra={"score": {"name": "one", "steps": score}})
        monkeypatch.setattr(documents, "parse", decoded)
        answer = asyncio.run(chat(Endpoint(url), request))
        assert set(order) == {"piece"}
        record = answer.record()
    assert record.error is None
    assert {"split", "decode"} <= set(order)
    last = len(order) - order[::-1].index("piece")
    assert "decode" not in order[:last]
