"""The rounds of a warm-up: every shape of request the server will see, then a probe that is timed.

What a round sends follows what is compiled lazily: a concurrency ladder up to max_num_seqs (graph
sizes, sampler), prompts up to the prefill chunk and the context length, greedy and sampled,
streamed and not. All carry a cache salt of their own, so that they leave nothing in the prefix
cache that a user's request could meet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from deploy.core.latency import Run
from deploy.core.quantiles import percentile
from deploy.node.client import Answer, ChatRequest, Endpoint, chat
from deploy.node.http import Deadlines
from deploy.node.load import closed_loop
from deploy.node.prompts import Scale, prompt

DEADLINES = Deadlines(connect=5, idle=300, total=600)
TOKENS = 16
PROBES = 8
FLOOR_MS = {"ttft": 1.0, "tpot": 0.5}
"""Differences below this are no news, whatever share of the value they are."""


class NotWarm(Exception):
    """The server cannot be warmed up; the text is one line."""


@dataclass(frozen=True)
class Shape:
    """One kind of request in a round, sent `count` times at once."""

    name: str
    words: int
    count: int = 1
    temperature: float = 0.0
    stream: bool = True


@dataclass(frozen=True)
class Round:
    """What one round did. Medians of its probe in milliseconds; first = its very first TTFT."""

    number: int
    requests: int
    seconds: float
    ttft_ms: float
    tpot_ms: float
    first_ttft_ms: float

    def difference(self, before: Round) -> float:
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


def shapes(max_num_seqs: int, max_batched: int, max_model_len: int, scale: Scale) -> list[Shape]:
    """All shapes of one round, scaled to what the server was configured for."""
    longest = max(1, max_model_len - TOKENS - 64)
    ladder, step = [], 1
    while step < max_num_seqs:
        ladder.append(step)
        step *= 2
    ladder.append(max(1, max_num_seqs))
    return [
        Shape("short, not streamed", 12, stream=False),
        *(Shape(f"{count} at once", 24, count) for count in ladder),
        Shape("sampled", 24, 2, temperature=0.8),
        Shape("one prefill chunk", scale.words(min(max_batched, int(longest * 0.9)))),
        Shape("near the context length", scale.words(int(longest * 0.9))),
        Shape("long, sampled", scale.words(longest // 2), 2, temperature=0.8),
    ]


@dataclass(frozen=True)
class Warmer:
    """Sends rounds to one replica."""

    endpoint: Endpoint
    model: str
    max_num_seqs: int
    max_batched: int
    max_model_len: int
    salt: str

    async def calibrate(self) -> Scale:
        """Words per token, from two first requests; also the server's very first work.

        The second is long: what is read off two short prompts misses the context length by more
        than the room that is left below it.
        """
        counts = []
        for number, words in enumerate((12, max(48, self.max_model_len // 8))):
            text = prompt(words, self.salt, number)
            request = ChatRequest(self.model, text, 4, stream=False, salt=self.salt)
            record = (await chat(self.endpoint, request, DEADLINES)).record()
            if record.error:
                raise NotWarm(f"the first requests failed: {record.error}")
            counts.append((words, record.prompt_tokens or 0))
        return Scale.through(counts[0], counts[1])

    async def round(self, number: int, scale: Scale) -> Round:
        """One round: all shapes, then the timed probe. Raises NotWarm when a request fails."""
        began = time.perf_counter()
        sent: list[Answer] = []
        for shape in shapes(self.max_num_seqs, self.max_batched, self.max_model_len, scale):
            sent += await self._send(shape, f"{self.salt}/{number}/{shape.name}")
        probe = await self._probe(f"{self.salt}/{number}/probe")
        first = Run((sent[1].record(),)).completed[0].ttft * 1000
        series = probe.series()
        return Round(
            number=number,
            requests=len(sent) + PROBES,
            seconds=time.perf_counter() - began,
            ttft_ms=percentile(series["ttft"], 50),
            tpot_ms=percentile(series["tpot"], 50),
            first_ttft_ms=first,
        )

    async def _probe(self, seed: str) -> Run:
        """Short streams one after the other: the same each round, whatever else it sends."""
        answers = await self._send(Shape("probe", 24, PROBES), seed, concurrency=1)
        return Run(tuple(answer.record() for answer in answers))

    async def _send(self, shape: Shape, seed: str, concurrency: int = 0) -> list[Answer]:
        async def one(number: int, due: float) -> Answer:
            request = ChatRequest(
                self.model,
                prompt(shape.words, seed, number),
                TOKENS,
                temperature=shape.temperature,
                stream=shape.stream,
                salt=self.salt,
            )
            return await chat(self.endpoint, request, DEADLINES, due)

        answers = await closed_loop(concurrency or shape.count, shape.count, one)
        for answer in answers:
            record = answer.record()
            if record.error:
                raise NotWarm(f"a warm-up request ({shape.name}) failed: {record.error}")
        return answers
