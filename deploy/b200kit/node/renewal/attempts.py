"""Measure where nobody is disturbed: wait until the node is idle, and yield to whoever comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from b200kit.node.client.chat import Tally
from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.renewal.node import ThisNode
from b200kit.node.renewal.traffic import GatewayTraffic, Quiet, foreign

EVERY_S = 1.0
"""Seconds between two looks for traffic while it waits."""
WATCHED_S = 0.25
"""The same while it measures: so long a request of others has company."""
Judge = Callable[[SmokeResult], SmokeResult]


@dataclass(frozen=True)
class RenewalOutcome:
    """*found*: of a test that passed or failed; None where there was none until the hours end.

    *why*: why there is none, or the test's reasons.
    """

    found: SmokeResult | None
    why: str


@dataclass
class Attempts:
    """As many as it takes. *idle_s*: for how long nobody must have asked before one begins."""

    site: ThisNode
    idle_s: float
    judge: Judge
    say: Callable[[str], None]

    async def until_measured(self) -> RenewalOutcome:
        """Wait, measure, and again where somebody came or nothing was measured."""
        quiet, why = Quiet(), ""
        while self.site.left_s() > 0:
            hindered = self.site.hindrance()
            quiet = Quiet(why=hindered) if hindered else await self._after(quiet)
            why = quiet.why or why
            if quiet.for_s(self.site.now_s()) >= self.idle_s and quiet.last is not None:
                outcome = await self._one(quiet.last)
                if outcome.found is not None:
                    return outcome
                why = outcome.why
                self.say(f"not measured: {why}; again once the node is idle")
                quiet = Quiet()
            await asyncio.sleep(EVERY_S)
        return RenewalOutcome(None, why or f"the node was not idle for {self.idle_s:g} s")

    async def _after(self, quiet: Quiet) -> Quiet:
        seen = await self.site.traffic()
        return quiet.after(self.site.now_s(), seen)

    async def _one(self, begun: GatewayTraffic) -> RenewalOutcome:
        """One measurement, ended at once where it must yield."""
        tally = Tally()
        measuring = asyncio.ensure_future(self.site.measure(tally))
        watching = asyncio.ensure_future(self._until_yielding(begun, tally))
        try:
            await asyncio.wait((measuring, watching), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                # Whoever came after the last look was measured with.
                why = await asyncio.to_thread(self._yields, begun, tally)
                return RenewalOutcome(None, why) if why else self._judged(measuring.result())
            return RenewalOutcome(None, watching.result())
        finally:
            for task in (measuring, watching):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _until_yielding(self, begun: GatewayTraffic, tally: Tally) -> str:
        """Returns why the measurement must end, once it must."""
        while True:
            # In a thread: the client stamps what it receives meanwhile.
            if why := await asyncio.to_thread(self._yields, begun, tally):
                return why
            await asyncio.sleep(WATCHED_S)

    def _yields(self, begun: GatewayTraffic, tally: Tally) -> str:
        if self.site.left_s() <= 0:
            return "the hours for it are over"
        seen = self.site.at_gateway()
        # Counted after the gateway was asked: what is sent meanwhile is not taken for another's.
        others = seen if isinstance(seen, str) else foreign(begun, seen, tally.sent)
        return others or self.site.hindrance()

    def _judged(self, measured: SmokeResult) -> RenewalOutcome:
        """An invalid test measured nothing: what was measured before goes on ageing."""
        found = self.judge(measured)
        return RenewalOutcome(
            None if found.verdict == "invalid" else found, "; ".join(found.reasons)
        )
