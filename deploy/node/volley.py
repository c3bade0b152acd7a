"""A volley: the measured requests over one path, and the few before them that do not count."""

from __future__ import annotations

from dataclasses import dataclass, field

from deploy.core.latency import Run
from deploy.node.client import ChatRequest, Endpoint, chat
from deploy.node.http import Deadlines
from deploy.node.load import Arrival
from deploy.node.prompts import Scale, prompt
from deploy.node.starvation import Watch

DEADLINES = Deadlines(connect=5, idle=30, total=120)
UNCOUNTED = 2


@dataclass(frozen=True)
class Volley:
    """What is sent: every request has its own prompt, and the cache salt of the run.

    scale: how this model counts words, from the canary. seed: of arrivals and prompts.
    """

    model: str
    input_tokens: int
    output_tokens: int
    arrival: Arrival
    seed: int
    salt: str
    scale: Scale = field(default_factory=Scale)

    async def settle(self, endpoint: Endpoint, name: str) -> None:
        """A few requests that count nowhere: the first ones over a path may find it cold."""
        for number in range(UNCOUNTED):
            await chat(endpoint, self._request(f"{name}/first", number), DEADLINES)

    async def fire(self, endpoint: Endpoint, name: str, requests: int, watch: Watch) -> Run:
        """The measured requests; the client is watched while they are under way."""
        made = [self._request(name, number) for number in range(requests)]
        async with watch.running():
            answers = await self.arrival.run(
                requests,
                self.seed,
                lambda number, due: chat(endpoint, made[number], DEADLINES, due),
            )
        return Run(tuple(answer.record() for answer in answers))

    def _request(self, name: str, number: int) -> ChatRequest:
        words = self.scale.words(self.input_tokens)
        text = prompt(words, f"{self.seed}/{name}", number)
        return ChatRequest(self.model, text, self.output_tokens, salt=self.salt)

    def conditions(self) -> dict[str, object]:
        """What was asked for, in the words of the smoke document."""
        return {
            "seed": self.seed,
            "cache_salt": self.salt,
            "arrival": str(self.arrival),
            "isl_requested": self.input_tokens,
            "osl_requested": self.output_tokens,
            "prompts": "own word list, distinct by seed; no prefix shared",
            "sampling": {"temperature": 0, "ignore_eos": True},
            "warmups": UNCOUNTED,
            "connection": "one a request, set-up counted",
        }
