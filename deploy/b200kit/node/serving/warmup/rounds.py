"""The rounds of a warm-up: the ladder of shapes, then a probe that is timed.

All requests but those that begin with a system prompt carry a cache salt of their own, so that they
leave nothing in the prefix cache that a user's request could meet.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from b200kit.node.client.arrivals import closed_loop
from b200kit.node.client.chat import ChatAnswer, Endpoint, chat
from b200kit.node.client.formulas import Run
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.percentiles import percentile
from b200kit.node.serving.warmup.request_shapes import RequestShape

# A first inference took 42 s on a cold B200 (NVIDIA/aicr PR 1196).
DEADLINES = HttpDeadlines(connect=5, idle=300, total=600)
PROBES = 8
FLOOR_MS = {"ttft": 1.0, "tpot": 0.5}
"""Differences below this are no news, whatever share of the value they are."""


class NotWarm(Exception):
    """The server cannot be warmed up; the text is one line."""


@dataclass(frozen=True)
class WarmupRound:
    """What one round did. Medians of its probe in milliseconds; first = its very first TTFT.

    jit: kernels that the journal says were compiled in it; None where that was not measured.
    """

    number: int
    requests: int
    seconds: float
    ttft_ms: float
    tpot_ms: float
    first_ttft_ms: float
    jit: int | None = None

    def difference(self, before: WarmupRound) -> float:
        """The larger of the shares by which TTFT and TPOT differ from another round's."""
        pairs = (
            (self.ttft_ms, before.ttft_ms, FLOOR_MS["ttft"]),
            (self.tpot_ms, before.tpot_ms, FLOOR_MS["tpot"]),
        )
        return max(relative(now, then, floor) for now, then, floor in pairs)


def relative(now: float, then: float, floor: float) -> float:
    """|now - then| as a share of the larger; 0 when they differ by no more than `floor`."""
    gap = abs(now - then)
    return 0.0 if gap <= floor else gap / max(now, then)


@dataclass(frozen=True)
class Warmer:
    """Sends rounds to one replica."""

    endpoint: Endpoint
    model: str
    shapes: Sequence[RequestShape]
    salt: str

    async def round(self, number: int) -> WarmupRound:
        """One round: all shapes, then the timed probe. Raises NotWarm when a request fails."""
        began = time.perf_counter()
        sent: list[ChatAnswer] = []
        for shape in self.shapes:
            sent += await self._send(shape, f"{self.salt}/{number}/{shape.name}")
        probe = await self._probe(f"{self.salt}/{number}/probe")
        series = probe.series()
        return WarmupRound(
            number=number,
            requests=len(sent) + PROBES,
            seconds=time.perf_counter() - began,
            ttft_ms=percentile(series["ttft"], 50),
            tpot_ms=percentile(series["tpot"], 50),
            first_ttft_ms=Run((sent[0].record(),)).completed[0].ttft * 1000,
        )

    async def _probe(self, seed: str) -> Run:
        """Short streams one after the other: the same each round, whatever else it sends."""
        answers = await self._send(RequestShape("probe", PROBES), seed, concurrency=1)
        return Run(tuple(answer.record() for answer in answers))

    async def _send(self, shape: RequestShape, seed: str, concurrency: int = 0) -> list[ChatAnswer]:
        async def one(number: int, due: float) -> ChatAnswer:
            request = shape.request(self.model, self.salt, seed, number)
            return await chat(self.endpoint, request, DEADLINES, due)

        answers = await closed_loop(concurrency or shape.count, shape.count, one)
        for answer in answers:
            record = answer.record()
            if record.error:
                raise NotWarm(f"a warm-up request ({shape.name}) failed: {record.error}")
        return answers
