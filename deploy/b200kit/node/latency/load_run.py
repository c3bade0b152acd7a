"""A volley: the measured requests over one path, and the few before them that do not count."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.client_health import Watch
from b200kit.node.client.formulas import Run
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.prompts import PromptSource, Scale, WordList
from b200kit.node.client.smoke_result import Sampling, SentLoad

# An answer may be as long as it likes, while tokens come.
DEADLINES = HttpDeadlines(connect=5, idle=30, total=math.inf)
UNCOUNTED = 2
_COUNTED = 6
"""Prompts by which tokens are counted: of texts on as many topics."""


@dataclass(frozen=True)
class Volley:
    """What is sent: every request has its own prompt, and the cache salt of the run.

    scale: how this model counts words, from the correctness check. seed: of arrivals and prompts;
    ignore_eos: whether all answers are of the requested length, which a few servers refuse.
    arrivals: which of the arrivals of that seed.
    """

    model: str
    input_tokens: int
    output_tokens: int
    arrival: Arrival
    seed: int
    salt: str
    scale: Scale = field(default_factory=Scale)
    ignore_eos: bool = True
    arrivals: int = 0
    prompts: PromptSource = field(default_factory=WordList)

    async def scaled(self, endpoint: Endpoint) -> Volley:
        """The same with words of these prompts counted by the server; random ones have been.

        First by prompts of half the length, for whole ones might be too long for the server.
        """
        if isinstance(self.prompts, WordList):
            return self
        near = await self._counted(endpoint, self.input_tokens // 2)
        return await near._counted(endpoint, self.input_tokens)

    async def _counted(self, endpoint: Endpoint, tokens: int) -> Volley:
        """The same with tokens a word as in a few prompts; as it is where one was not answered.

        What the chat template adds is known, and is too little to be seen in texts that differ.
        """
        words = self.scale.words(tokens)
        made = [self._asked(words, "scale", number) for number in range(_COUNTED)]
        short = [replace(request, max_tokens=2) for request in made]
        answers = [await chat(endpoint, request, DEADLINES) for request in short]
        counts = [answer.record().prompt_tokens or 0 for answer in answers]
        found = sum(counts) - _COUNTED * self.scale.overhead
        if not all(counts) or found <= 0:
            return self
        sent = sum(len(request.prompt.split()) for request in made)
        return replace(self, scale=replace(self.scale, per_word=found / sent))

    async def settle(self, endpoint: Endpoint, name: str) -> None:
        """A few requests that count nowhere: the first ones over a path may find it cold."""
        for number in range(UNCOUNTED):
            await chat(endpoint, self._request(f"{name}/first", number), DEADLINES)

    async def fire(self, endpoint: Endpoint, name: str, requests: int, watch: Watch) -> Run:
        """The measured requests; the client is watched while they are under way."""
        return (await self.fire_at({name: endpoint}, requests, watch))[name]

    async def fire_at(
        self, endpoints: Mapping[str, Endpoint], requests: int, watch: Watch
    ) -> dict[str, Run]:
        """The same at several at once, so many requests to each at its own share of the rate."""
        shares = [self._share(number, len(endpoints)) for number in range(len(endpoints))]
        pairs = zip(shares, endpoints.items(), strict=True)
        sending = [share._sending(endpoint, name, requests) for share, (name, endpoint) in pairs]
        async with watch.running():
            found = await asyncio.gather(*(send() for send in sending))
        # Decoding comes after: while requests are under way the client only stamps and stores.
        runs = [Run(tuple(answer.record() for answer in answers)) for answers in found]
        return dict(zip(endpoints, runs, strict=True))

    def _share(self, number: int, of: int) -> Volley:
        """One of several volleys that make up this one's rate; each has arrivals of its own."""
        rate = self.arrival.rate
        arrival = replace(self.arrival, rate=rate / of if rate else rate)
        return replace(self, arrival=arrival, arrivals=self.arrivals + number)

    def _sending(
        self, endpoint: Endpoint, name: str, requests: int
    ) -> Callable[[], Awaitable[list[ChatAnswer]]]:
        """What sends the requests, which are made by now."""
        made = [self._request(name, number) for number in range(requests)]
        return lambda: self.arrival.run(
            requests,
            self.seed + self.arrivals,
            lambda number, due: chat(endpoint, made[number], DEADLINES, due),
        )

    def _request(self, name: str, number: int) -> ChatRequest:
        return self._asked(self.scale.words(self.input_tokens), name, number)

    def _asked(self, words: int, name: str, number: int) -> ChatRequest:
        text = self.prompts.text(words, f"{self.seed}/{name}", number)
        return ChatRequest(
            self.model, text, self.output_tokens, salt=self.salt, ignore_eos=self.ignore_eos
        )

    def load(self) -> SentLoad:
        """What was asked for, as a result keeps it."""
        return SentLoad(
            seed=self.seed,
            cache_salt=self.salt,
            arrival=str(self.arrival),
            rate=None if self.arrival.concurrency else self.arrival.rate,
            isl_requested=self.input_tokens,
            osl_requested=self.output_tokens,
            prompts=f"{self.prompts.name}, distinct by seed",
            sampling=Sampling(0, self.ignore_eos),
            template_tokens=round(self.scale.overhead, 1),
            warmups=UNCOUNTED,
            connection="one a request, set-up counted",
        )
