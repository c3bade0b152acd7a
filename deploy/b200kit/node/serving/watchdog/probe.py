"""Is a replica alive? A one-token completion, past the gateway, and the engine's own counters.

/health stays 200 while an engine is deadlocked (vllm#39863), so it is not asked. A probe that gets
no answer while tokens are made for others is one that waits in a long queue: restarting a replica
that is only busy would drop every request it has.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import Answer, ChatRequest, Endpoint, chat
from b200kit.node.client.engine_metrics import Sample
from b200kit.node.client.http import Deadlines
from b200kit.node.client.message import HttpError
from b200kit.node.client.serving_config import WatchdogPlan
from b200kit.node.state.watchdog import Outcome

# Answers that say "later", not "wrong".
_LATER = (408, 429)


@dataclass(frozen=True)
class Found:
    """What a probe found; detail is one line, seconds how long the answer took."""

    outcome: Outcome
    detail: str
    seconds: float = 0.0


@dataclass
class Prober:
    """Probes one replica; remembers since when its engine has stood still with requests waiting."""

    endpoint: Endpoint
    model: str
    plan: WatchdogPlan
    clock: Callable[[], float] = field(default=time.monotonic)
    _made: float | None = None
    _still_since: float | None = None

    async def probe(self) -> Found:
        """One look; takes the probe's deadline and 20 s for counters at most."""
        before = await engine_metrics.scrape(self.endpoint)
        still_s = self._still_for(before)
        if still_s >= self.plan.rules.stall_s:
            return Found(
                Outcome.STALLED, f"requests wait and no token was made for {still_s:.0f} s"
            )
        began = self.clock()
        answer = await self._answer()
        took, error = self.clock() - began, answer.record().error
        if error is None:
            return Found(Outcome.ANSWERED, "", took)
        if refuses(answer):
            return Found(Outcome.REFUSED, error, took)
        if self._grew(before, await engine_metrics.scrape(self.endpoint)):
            return Found(Outcome.BUSY, f"{error}; tokens are made for others", took)
        return Found(Outcome.NO_ANSWER, error, took)

    async def _answer(self) -> Answer:
        deadline = self.plan.rules.deadline_s
        # A salt of its own: an answer out of a cache would prove less.
        request = ChatRequest(
            self.model, "Ping.", 1, stream=False, salt=f"watchdog-{secrets.token_hex(8)}"
        )
        limits = Deadlines(connect=min(5.0, deadline), idle=deadline, total=deadline)
        return await chat(self.endpoint, request, limits)

    def _still_for(self, sample: Sample | str) -> float:
        """Seconds for which requests waited while nothing was made; 0 where that is unknown."""
        made = self._progress(sample)
        waits = not isinstance(sample, str) and sample.get(self.plan.waiting, 0.0) > 0
        if made is None or made != self._made or not waits:
            self._made, self._still_since = made, self.clock() if waits else None
        return 0.0 if self._still_since is None else self.clock() - self._still_since

    def _progress(self, sample: Sample | str) -> float | None:
        if isinstance(sample, str):
            return None
        series = [sample[name] for name in self.plan.progress if name in sample]
        return sum(series) if series else None

    def _grew(self, before: Sample | str, after: Sample | str) -> bool:
        then, now = self._progress(before), self._progress(after)
        return then is not None and now is not None and now > then


def refuses(answer: Answer) -> bool:
    """Whether the server answered that the request is wrong, such as for its key."""
    try:
        status = answer.raw.status
    except HttpError:
        return False
    return 400 <= status < 500 and status not in _LATER
