"""Restarts a service of the driver for which replicas are out, where the inventory says so.

Only once each replica that the fault touches is out of the gateway and idle, and never while a
rolling restart runs. For a fabric manager that is every replica: they stop, it is restarted, the
GPUs are reset, and they start. Whether it helped is the next health checks' business: they end the
fault, and the replicas return as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from b200kit.node.agent.effects import Edges
from b200kit.node.agent.memory import AgentMemory, say
from b200kit.node.agent.replica import Watched
from b200kit.node.lib import boot_clock
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state import mend
from b200kit.node.state.event import Event
from b200kit.node.state.mend import MANAGER, MendDue, MendRules, MendTries

WITHIN_S = 120.0
"""What a restart may take."""
_EVERY_S = 1.0


@dataclass
class Mender:
    """The one of a node. *memory*: what it has done, and the last health check."""

    replicas: Sequence[Watched]
    acts: Edges
    takes_out: Sequence[str]
    rules: MendRules
    memory: AgentMemory
    clock: Callable[[], Moment] = field(default=boot_clock.now)
    # What it said last, so that it says it once.
    said: str = ""

    async def run(self) -> None:
        """For ever; nothing where nothing is to be mended."""
        while True:
            if self.rules.mends:
                await self.tick()
            await asyncio.sleep(_EVERY_S)

    async def tick(self) -> None:
        """Restart what is due, if it may be."""
        look = self.memory.look
        if look is None or self.acts.is_drained():
            return
        for one in mend.due(look.faults, self.takes_out, self.rules):
            if await self._may(one, look.boot_s):
                with self.acts.no_rolling_restart() as free:
                    if free:
                        await self._restart(one)
                return

    async def _may(self, one: MendDue, looked: float) -> bool:
        """Whether it is its turn; a breaker that is open is said once."""
        why = mend.refusal(self._tries(), self.rules, self.clock().seconds, looked)
        if why:
            self._say("mend.refused", one, why)
        return why is None and await self._is_quiet(one)

    async def _is_quiet(self, one: MendDue) -> bool:
        """Whether each replica is out of the gateway and was idle twice, a moment apart."""
        every = one.unit == MANAGER
        touched = [r for r in self.replicas if every or r.replica.index in one.replicas]
        for _ in range(2):
            if not all(r.standing.held and r.standing.out_of_rotation for r in touched):
                return False
            if not all([await r.prober.is_idle() for r in touched]):
                return False
            await asyncio.sleep(_EVERY_S)
        return True

    async def _restart(self, one: MendDue) -> None:
        """Remember it first: an agent that is killed meanwhile has tried."""
        now = self.clock()
        self.memory.mends = mend.tried(self._tries(), self.rules, now.seconds)
        if why := self.memory.save():
            return self._say("mend.refused", one, f"not restarted: {why}")
        self._say("mend.begun", one, f"restarting, as the inventory allows: {one.why}")
        if one.unit == MANAGER:
            units = [each.replica.unit for each in self.replicas]
            problem = await self.acts.renew_manager(units, f"mend-{now.seconds:.0f}")
        else:
            problem = await self.acts.restart(one.unit, WITHIN_S)
        self.memory.mends = mend.ended(self._tries(), self.clock().seconds)
        self.memory.save()
        kind = "mend.failed" if problem else "mend.done"
        self._say(kind, one, problem or "restarted; the next health checks say whether it helped")

    def _tries(self) -> MendTries:
        """What was restarted in this boot."""
        boot_id, tries = self.clock().boot_id, self.memory.mends
        return tries if tries and tries.boot_id == boot_id else MendTries(boot_id)

    def _say(self, kind: str, one: MendDue, what: str) -> None:
        """Once: for the journal, and the site."""
        line = f"{one.unit}: {what}"
        if line != self.said:
            say(f"mend: {line}")
            self.memory.tell(Event(kind, line, subject=one.unit, replicas=one.replicas))
        self.said = line
