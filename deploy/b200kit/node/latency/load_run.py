"""A volley: the measured requests over one path, and the few before them that do not count."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from b200kit.node.client.arrivals import Arrival
from b200kit.node.client.chat import Answer, ChatRequest, Endpoint, chat
from b200kit.node.client.client_health import Watch
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.client.dataset.source import WordList
from b200kit.node.client.dataset.words import Scale
from b200kit.node.client.formulas import RequestRecord, Run
from b200kit.node.client.http import Deadlines, Exchange
from b200kit.node.client.low_load import ROUNDS
from b200kit.node.client.smoke_result import Sampling, SentLoad

# An answer may be as long as it likes, while tokens come.
DEADLINES = Deadlines(connect=5, idle=30, total=math.inf)
UNCOUNTED = 2
_APART = 1000
_COUNTED = 6
"""Prompts by which tokens are counted: of texts on as many topics."""


@dataclass(frozen=True)
class Volley:
    """What is sent: every request has its own prompt, and the cache salt of the run.

    scale: how this model counts words, from the correctness check. seed: of arrivals and prompts;
    ignore_eos: whether all answers are of the requested length, which a few servers refuse.
    arrivals: which of the arrivals of that seed. turn: number of the volley in a run, from 0; no
    two have a prompt in common. dataset: what the prompts are; of a conversation, input_tokens is
    the length of what the user says in each turn.
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
    turn: int = 0
    dataset: Dataset = field(default_factory=Dataset)

    async def scaled(self, endpoint: Endpoint) -> Volley:
        """The same with this dataset's words counted by the server; random ones have been.

        First by prompts of half the length, for whole ones might be too long for the server.
        """
        if isinstance(self.dataset.source, WordList):
            return self
        near = await self._counted(endpoint, self.input_tokens // 2)
        return await near._counted(endpoint, self.input_tokens)

    async def _counted(self, endpoint: Endpoint, tokens: int) -> Volley:
        """The same with tokens a word as in a few prompts; as it is where one was not answered.

        What the chat template adds is known, and is too little to be seen in texts that differ.
        """
        words, group = self.scale.words(tokens), self.dataset.group
        made = [self._asked(words, "scale", number * group) for number in range(_COUNTED)]
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

    async def fire_until(
        self,
        endpoint: Endpoint,
        name: str,
        requests: int,
        watch: Watch,
        is_decided: Callable[[Run], bool],
    ) -> Run:
        """The same again and again until they carry a verdict, ROUNDS times at most."""
        run = Run(())
        for turn in range(ROUNDS):
            volley = replace(self, turn=turn)
            run = run.and_then(await volley.fire(endpoint, name, requests, watch))
            if is_decided(run):
                break
        return run

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
        runs = [Run(_in_due_order(answers)) for answers in found]
        return dict(zip(endpoints, runs, strict=True))

    def _share(self, number: int, of: int) -> Volley:
        """One of several volleys that make up this one's rate; each has arrivals of its own."""
        rate = self.arrival.rate
        arrival = replace(self.arrival, rate=rate / of if rate else rate)
        return replace(self, arrival=arrival, arrivals=self.arrivals + number)

    def _sending(
        self, endpoint: Endpoint, name: str, requests: int
    ) -> Callable[[], Awaitable[list[list[Answer]]]]:
        """What sends the requests, which are made by now, conversation by conversation."""
        made = [
            [self._request(name, number, turn) for turn in range(turns)]
            for number, turns in enumerate(self.dataset.split(requests))
        ]
        return lambda: self._opening.run(
            len(made),
            self.seed + self.arrivals + _APART * self.turn,
            lambda number, due: _converse(endpoint, made[number], due),
        )

    @property
    def _opening(self) -> Arrival:
        """When conversations begin."""
        rate = self.arrival.rate
        return replace(self.arrival, rate=rate / self.dataset.turns if rate else rate)

    def _request(self, name: str, number: int, turn: int = 0) -> ChatRequest:
        return self._asked(self.scale.words(self.input_tokens), name, number, turn)

    def _asked(self, words: int, name: str, number: int, turn: int = 0) -> ChatRequest:
        again = f"/{self.turn}" if self.turn else ""
        text = self.dataset.message(words, f"{self.seed}/{name}{again}", number, turn)
        return ChatRequest(
            self.model, text, self.output_tokens, salt=self.salt, ignore_eos=self.ignore_eos
        )

    def load(self) -> SentLoad:
        """What was asked for, as a result keeps it."""
        data = self.dataset
        return SentLoad(
            seed=self.seed,
            cache_salt=self.salt,
            arrival=self._arrival_in_words(),
            rate=None if self.arrival.concurrency else self.arrival.rate,
            isl_requested=self.input_tokens,
            osl_requested=self.output_tokens,
            prompts=str(data),
            prefix_share=data.shared,
            # A prefix that is not shared is one request's.
            prefix_requests=data.group if data.shared else 1,
            turns=data.turns,
            sampling=Sampling(0, self.ignore_eos),
            template_tokens=round(self.scale.overhead, 1),
            warmups=UNCOUNTED,
            connection="one a request, set-up counted",
        )

    def _arrival_in_words(self) -> str:
        if self.dataset.turns == 1:
            return str(self.arrival)
        opening = str(self._opening).replace("requests/s", "conversations/s")
        return f"{opening}; each answer is followed by the next turn at once"


async def _converse(
    endpoint: Endpoint, requests: Sequence[ChatRequest], due: float
) -> list[Answer]:
    """Send the turns of a conversation, each when the answer before it is there.

    After one that fails the rest is not sent, and has failed, too.
    """
    answers: list[Answer] = []
    earlier: tuple[str, ...] = ()
    for request in requests:
        if answers:
            last = answers[-1]
            # Decoding is slow for long answers, and other streams are to be stamped meanwhile.
            record = await asyncio.to_thread(last.record)
            due = time.perf_counter()
            earlier += (last.request.prompt, last.text)
            if record.error:
                answers.append(_unsent(request, due))
                continue
        answers.append(await chat(endpoint, replace(request, earlier=earlier), DEADLINES, due))
    return answers


def _unsent(request: ChatRequest, due: float) -> Answer:
    raw = Exchange(due, ended=due, fault="not sent: the answer before it failed")
    return Answer(request, due, raw)


def _in_due_order(conversations: Sequence[Sequence[Answer]]) -> tuple[RequestRecord, ...]:
    records = (answer.record() for answers in conversations for answer in answers)
    return tuple(sorted(records, key=lambda record: record.scheduled))
