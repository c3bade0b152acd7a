"""Restarts a service of the driver for which replicas are out, where the inventory says so.

Only once each replica that the fault touches is out of the gateway and idle, and never while a
rolling restart runs. For a fabric manager that is every replica: they stop, it is restarted, the
GPUs are reset, and they start. Whether it helped is the next looks' business: they end the fault,
and the replicas return as ever.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from b200kit.node.lib import boot_clock, documents, durable_files
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.serving.watchdog.protocols import Acts
from b200kit.node.serving.watchdog.replica import Watched
from b200kit.node.state import mend
from b200kit.node.state.event import Event
from b200kit.node.state.mend import MANAGER, MendDue, MendRules, MendTries
from b200kit.node.state.watch import Look

FILE = "mends.json"
WITHIN_S = 120.0
"""What a restart may take."""
_EVERY_S = 1.0


class Looks(Acts, Protocol):
    """What a mender needs of the node besides (b200kit/node/serving/watchdog/effects.py)."""

    def look(self) -> Look | None:
        """What the last look left; None where that is not known."""

    async def renew_manager(self, units: Sequence[str], act: str) -> str | None:
        """Stop all replicas, restart the fabric manager, reset the GPUs, start the replicas."""


@dataclass
class Mender:
    """The one of a node. *directory*: where it remembers what it did."""

    replicas: Sequence[Watched]
    acts: Looks
    takes_out: Sequence[str]
    rules: MendRules
    directory: Path
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
        look = self.acts.look()
        if look is None:
            return
        for one in mend.due(look.faults, self.takes_out, self.rules):
            if await self._may(one, look.boot_s):
                with self.acts.no_rolling_restart() as free:
                    if free:
                        await self._restart(one)
                return

    async def _may(self, one: MendDue, looked: float) -> bool:
        """Whether it is its turn; a breaker that is open is said once."""
        try:
            why = mend.refusal(self._tries(), self.rules, self.clock().seconds, looked)
        except (OSError, documents.Malformed) as error:
            why = f"what was restarted before is not known: {error}"
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
        """Remember it first: a watchdog that is killed meanwhile has tried."""
        now = self.clock()
        tries = mend.tried(self._tries(), self.rules, now.seconds)
        try:
            durable_files.replace(self.directory / FILE, documents.to_bytes(tries))
        except OSError as error:
            why = f"not restarted, as that could not be written down: {error}"
            return self._say("mend.refused", one, why)
        self._say("mend.begun", one, f"restarting, as the inventory allows: {one.why}")
        if one.unit == MANAGER:
            units = [each.replica.unit for each in self.replicas]
            problem = await self.acts.renew_manager(units, f"mend-{now.seconds:.0f}")
        else:
            problem = await self.acts.restart(one.unit, WITHIN_S)
        with suppress(OSError):
            last = mend.ended(tries, self.clock().seconds)
            durable_files.replace(self.directory / FILE, documents.to_bytes(last))
        kind = "mend.failed" if problem else "mend.done"
        self._say(kind, one, problem or "restarted; the next looks say whether it helped")

    def _tries(self) -> MendTries:
        """What was restarted in this boot. Raises Malformed."""
        boot_id = self.clock().boot_id
        try:
            tries = documents.load(MendTries, self.directory / FILE)
        except FileNotFoundError:
            return MendTries(boot_id)
        return tries if tries.boot_id == boot_id else MendTries(boot_id)

    def _say(self, kind: str, one: MendDue, what: str) -> None:
        """Once: for the journal, and the site."""
        line = f"{one.unit}: {what}"
        if line != self.said:
            print(f"mend: {line}", file=sys.stderr, flush=True)
            self.acts.tell(Event(kind, line, subject=one.unit, replicas=one.replicas))
        self.said = line
