"""Is a replica alive? A one-token completion, past the gateway, and the engine's own counters.

/health stays 200 while an engine is deadlocked (vllm#39863), so it is not asked. A probe that gets
no answer while tokens are made for others is one that waits in a long queue: restarting a replica
that is only busy would drop every request it has.

An answer of one token proves no right one. So an idle replica is asked a golden prompt at its
first probe after a start and at each READ_EVERY-th, which is held against the node's reference.
Where no other replica answers like it either, the reference may be what is wrong: then none is
taken out.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from b200kit.node.client import engine_metrics
from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat
from b200kit.node.client.engine_metrics import Sample
from b200kit.node.client.golden.ask import ask
from b200kit.node.client.golden.prompts import PROMPTS
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.message import HttpError
from b200kit.node.state.pace import Pace, Reading
from b200kit.node.state.serving import WatchdogPlan
from b200kit.node.state.watchdog import ProbeOutcome

# Answers that say "later", not "wrong".
_LATER = (408, 429)
READ_EVERY = 20
"""Probes from one golden prompt to the next: every five minutes at the default interval."""


@dataclass(frozen=True)
class ProbeResult:
    """What a probe found; detail is one line, seconds how long the answer took."""

    outcome: ProbeOutcome
    detail: str
    seconds: float = 0.0


@dataclass
class AnswerQuorum:
    """Which of so many replicas last answered like the reference, by name."""

    replicas: int = 1
    found: dict[str, bool] = field(default_factory=dict)

    def is_confirmed(self, name: str) -> bool:
        """Whether another replica speaks for the reference, or there is none to ask."""
        return self.replicas == 1 or any(v for other, v in self.found.items() if other != name)


@dataclass
class Prober:
    """Probes one replica; remembers since when its engine has stood still with requests waiting.

    reference: reads what it should answer, None where that is not known; the smoke test may replace
    it at any time. in_flight: the engine's series that add up to the requests it has. alike, pace:
    shared by the replicas of a node, this one by name.
    """

    endpoint: Endpoint
    model: str
    plan: WatchdogPlan
    clock: Callable[[], float] = field(default=time.monotonic)
    reference: Callable[[], Reference | None] = lambda: None
    in_flight: tuple[str, ...] = ()
    alike: AnswerQuorum = field(default_factory=AnswerQuorum)
    pace: Pace = field(default_factory=Pace)
    name: str = ""
    _until_read: int = 0
    _number: int = 0
    _doubts: int = 0
    _made: float | None = None
    _still_since: float | None = None

    async def probe(self) -> ProbeResult:
        """One health check; takes the probe's deadline and 20 s for counters at most."""
        before = await engine_metrics.scrape(self.endpoint)
        if self._began_again(before):
            self._until_read = 0
        self._keep_pace(before)
        still_s = self._still_for(before)
        if still_s >= self.plan.rules.stall_s:
            return ProbeResult(
                ProbeOutcome.STALLED, f"requests wait and no token was made for {still_s:.0f} s"
            )
        began = self.clock()
        answer = await self._answer()
        took, error = self.clock() - began, answer.record().error
        if error is None and (why := self.pace.behind(self.name, self.clock())):
            return ProbeResult(ProbeOutcome.SLOW, why, took)
        if error is None:
            return replace(await self._read(before), seconds=took)
        if refuses(answer):
            return ProbeResult(ProbeOutcome.REFUSED, error, took)
        if self._grew(before, await engine_metrics.scrape(self.endpoint)):
            return ProbeResult(ProbeOutcome.BUSY, f"{error}; tokens are made for others", took)
        return ProbeResult(ProbeOutcome.NO_ANSWER, error, took)

    def _keep_pace(self, sample: Sample | str) -> None:
        names = f"{self.plan.gaps}_sum", f"{self.plan.gaps}_count"
        if self.plan.gaps and not isinstance(sample, str) and set(names) <= set(sample):
            self.pace.note(self.name, Reading(self.clock(), *(sample[name] for name in names)))

    async def _answer(self) -> ChatAnswer:
        deadline = self.plan.rules.deadline_s
        # A salt of its own: an answer out of a cache would prove less.
        request = ChatRequest(
            self.model, "Ping.", 1, stream=False, salt=f"watchdog-{secrets.token_hex(8)}"
        )
        limits = HttpDeadlines(connect=min(5.0, deadline), idle=deadline, total=deadline)
        return await chat(self.endpoint, request, limits)

    async def _read(self, before: Sample | str) -> ProbeResult:
        """Hold the answer to a golden prompt against the reference, when that is due and idle."""
        self._until_read -= 1
        known = None if self._until_read > 0 else self.reference()
        if known is None:
            return ProbeResult(ProbeOutcome.ANSWERED, "")
        if not self._is_idle(before):
            # Requests that are computed along may change what it says.
            outcome = ProbeOutcome.IN_DOUBT if self._doubts else ProbeOutcome.ANSWERED
            return ProbeResult(outcome, "it is not idle" if self._doubts else "")
        fault = await self._fault(known)
        if fault is None:
            self._until_read = READ_EVERY
            return ProbeResult(ProbeOutcome.ANSWERED, "")
        self.alike.found[self.name] = not fault
        if fault:
            return self._doubted(fault)
        self._doubts, self._until_read = 0, READ_EVERY
        self._number = (self._number + 1) % len(PROMPTS)
        return ProbeResult(ProbeOutcome.ANSWERED, "")

    def _doubted(self, fault: str) -> ProbeResult:
        self._doubts += 1
        if not self.alike.is_confirmed(self.name):
            return ProbeResult(
                ProbeOutcome.IN_DOUBT, f"{fault}; no other replica is known to answer like it"
            )
        wrong = self._doubts >= self.plan.rules.strikes
        return ProbeResult(ProbeOutcome.WRONG if wrong else ProbeOutcome.IN_DOUBT, fault)

    async def _fault(self, reference: Reference) -> str | None:
        """What is wrong with the answer to this turn's prompt; None where it cannot be compared."""
        deadline = self.plan.rules.deadline_s
        said = await ask(
            self.endpoint,
            self.model,
            reference.tokens,
            f"watchdog-{secrets.token_hex(8)}",
            prompts=[PROMPTS[self._number]],
            deadlines=HttpDeadlines(connect=min(5.0, deadline), idle=deadline, total=deadline),
        )
        if said.unmeasured:
            return None
        return said.error or reference.fault(said.answers, self._number)

    async def is_idle(self) -> bool:
        """Whether its engine has no request; one that does not say so is not known to be."""
        sample = await engine_metrics.scrape(self.endpoint)
        counted = not isinstance(sample, str) and any(name in sample for name in self.in_flight)
        return counted and self._is_idle(sample)

    def _is_idle(self, sample: Sample | str) -> bool:
        if isinstance(sample, str):
            return False
        return not sum(sample.get(series, 0.0) for series in self.in_flight)

    def _began_again(self, sample: Sample | str) -> bool:
        """Whether its counters fell, as those of a process that was started do."""
        made = self._progress(sample)
        return made is not None and self._made is not None and made < self._made

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


def refuses(answer: ChatAnswer) -> bool:
    """Whether the server answered that the request is wrong, such as for its key."""
    try:
        status = answer.raw.status
    except HttpError:
        return False
    return 400 <= status < 500 and status not in _LATER
