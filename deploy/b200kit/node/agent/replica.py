"""One replica under the watchdog: what is observed, what the rules decide, and the actions.

An ejection is: out of the gateway first, so that no client waits any longer than it has; then the
evidence, which a restart would destroy; then the restart, which warms it; then a probe, and only
then back. What is remembered is written down before each act, so that an agent that was killed
goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from b200kit.node.agent.effects import Edges
from b200kit.node.agent.memory import AgentMemory, say
from b200kit.node.agent.probe import Prober
from b200kit.node.lib import boot_clock, timestamp
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state import watch, watchdog
from b200kit.node.state.event import Event, Remediation
from b200kit.node.state.serving import ServedReplica
from b200kit.node.state.verdict import Action
from b200kit.node.state.watchdog import (
    LastStep,
    ProbeOutcome,
    ReplicaState,
    ReplicaStep,
    ReplicaUnit,
    WatchdogRules,
)

_EVERY_S = 1.0


@dataclass
class Watched:
    """A replica, what is remembered of it, and how it is probed."""

    replica: ServedReplica
    rules: WatchdogRules
    prober: Prober
    acts: Edges
    memory: AgentMemory
    takes_out: Sequence[str]
    restart_within_s: float
    restart_drain_s: float = 600.0
    clock: Callable[[], Moment] = field(default=boot_clock.now)
    busy: bool = False
    # Why it was left alone at the last health check.
    left: str = ""

    @property
    def server(self) -> str:
        """What the gateway calls it."""
        return f"vllm{self.replica.index}"

    @property
    def standing(self) -> ReplicaState:
        """What is remembered of it."""
        return self.memory.standings.get(self.replica.index) or ReplicaState()

    def held(self) -> str:
        """The confirmed fault that touches it; "" for none, also before the first health check."""
        look = self.memory.look
        return watch.out(look.faults, self.takes_out).get(self.replica.index, "") if look else ""

    async def tick(self) -> bool:
        """One check and what follows from it; True when the next check should not wait."""
        if self.acts.is_drained():
            # Whoever drains it may be about to stop it, and puts it back himself.
            return False
        if self.standing.given_up and await self._stays_given_up():
            return False
        if await self._is_held():
            return False
        observed = await self.acts.unit(self.replica.unit)
        standing, step = watchdog.before(self.standing, observed, self.rules, self.clock().seconds)
        if step is ReplicaStep.PROBE:
            self.left = ""
            return await self._probe(observed)
        if step is ReplicaStep.LEAVE:
            self._leave(standing, observed)
            return False
        self.left = ""
        return await self._do(step, standing, observed)

    async def _is_held(self) -> bool:
        """Keep it out of the gateway while a fault of the node is confirmed; its streams go on."""
        why = self.held()
        if not why:
            if self.standing.held:
                self.say(f"the fault is over: {self.standing.held}")
                self.keep(watchdog.release(self.standing), "released", self.standing.held)
            return False
        # A reload of the gateway, or a restart of the replica, puts it into rotation.
        problem = await self.acts.take_out_of_rotation(self.server)
        if why != self.standing.held:
            self._is_out(why, problem)
        standing = replace(watchdog.hold(self.standing, why), out_of_rotation=not problem)
        if standing != self.standing:
            self.keep(standing, "held", why)
        return True

    def _leave(self, standing: ReplicaState, observed: ReplicaUnit) -> None:
        """Leave it as it is, and say why once."""
        if observed.reason != self.left and not standing.given_up:
            self.say(f"left alone: {observed.reason}")
        self.left = observed.reason
        self.keep(standing, "left alone", observed.reason)

    async def _probe(self, observed: ReplicaUnit) -> bool:
        found = await self.prober.probe()
        if found.outcome is not ProbeOutcome.ANSWERED:
            self.say(f"probe: {found.outcome.value}: {found.detail}")
            if await self.acts.unit(self.replica.unit) != observed:
                # Stopped or restarted meanwhile, which is no fault of its.
                return False
        standing, step = watchdog.after(
            self.standing, observed, found.outcome, found.detail, self.rules, self.clock().seconds
        )
        if step is ReplicaStep.LEAVE:
            self.keep(standing, found.outcome.value, found.detail, found.seconds)
            return False
        slow = found.outcome is ProbeOutcome.SLOW
        return await self._do(step, standing, observed, drain=slow)

    async def _do(
        self, step: ReplicaStep, standing: ReplicaState, observed: ReplicaUnit, drain: bool = False
    ) -> bool:
        """Act, unless a rolling restart is running: then nothing is forgotten, and it can wait."""
        with self.acts.no_rolling_restart() as free:
            if not free:
                due = 0 if step is ReplicaStep.ADMIT else self.rules.strikes - 1
                waiting = replace(self.standing, strikes=due)
                self.keep(waiting, "left alone", "a rolling restart is running")
                return False
            self.busy = True
            try:
                return await self._act(step, standing, observed, drain)
            finally:
                self.busy = False

    async def _act(
        self, step: ReplicaStep, standing: ReplicaState, observed: ReplicaUnit, drain: bool
    ) -> bool:
        if step is ReplicaStep.ADMIT:
            await self._admit(standing)
            return False
        await self._eject(standing)
        if step is ReplicaStep.GIVE_UP:
            await self._stays_given_up()
            return False
        if drain:
            await self._drain()
        await self._restart(observed)
        return True

    async def _drain(self) -> None:
        """Let the requests of one that still answers end, for as long as a drain may take."""
        end = self.clock().seconds + self.restart_drain_s
        while not await self.prober.is_idle() and self.clock().seconds < end:
            await asyncio.sleep(_EVERY_S)

    async def _eject(self, standing: ReplicaState) -> None:
        problem = await self.acts.take_out_of_rotation(self.server)
        self._is_out(standing.why, problem, None if standing.given_up else Action.RESTART_SERVICE)
        standing = replace(standing, out_of_rotation=not problem)
        self.keep(standing, "ejected", standing.why)
        if not standing.evidence:
            try:
                evidence = await self.acts.collect(self.replica)
            except Exception as error:
                self.say(f"no evidence was collected: {error}")
            else:
                self.say(f"evidence is in {evidence}")
                self.keep(replace(standing, evidence=evidence), "ejected", standing.why)

    async def _restart(self, observed: ReplicaUnit) -> None:
        if observed.active == "active" and self.standing.evidence:
            try:
                await self.acts.abort(self.replica, self.standing.evidence)
            except Exception as error:
                self.say(f"it was not asked for its stacks: {error}")
        self.say(f"restarting {self.replica.unit}")
        problem = await self.acts.restart(self.replica.unit, self.restart_within_s)
        self.say(problem or f"{self.replica.unit} is warm")

    async def _admit(self, standing: ReplicaState) -> None:
        problem = await self.acts.put_back(self.server)
        if self.acts.is_drained():
            # It began meanwhile.
            await self.acts.take_out_of_rotation(self.server)
            return
        # A gateway that never took it out, as none was running, has nothing to put back.
        if problem and standing.out_of_rotation:
            self.say(f"it answers, and cannot be put back: {problem}")
            self.keep(standing, "answered", problem)
            return
        self.say("it answers: back in the gateway")
        self._tell("replica.back", f"back in the gateway, after: {standing.why}")
        self.keep(watchdog.admitted(standing), ProbeOutcome.ANSWERED.value, "")

    async def _stays_given_up(self) -> bool:
        """Keep it out and the node marked; False once a person has removed the mark."""
        standing = self.standing
        if standing.marked and not self.acts.is_marked():
            self.say("the mark was removed: it is repaired once more")
            self.keep(watchdog.forgiven(standing), "forgiven", "a person removed the mark")
            return False
        if not standing.marked:
            standing = self._marked(standing)
        # A reboot, or a gateway that was restarted, puts every server into rotation.
        problem = await self.acts.take_out_of_rotation(self.server)
        self.keep(replace(standing, out_of_rotation=not problem), "given up", standing.why)
        return True

    def _marked(self, standing: ReplicaState) -> ReplicaState:
        count = len(standing.ejections)
        why = f"replica {self.replica.index} was ejected {count} times within "
        why += f"{self.rules.window_s:g} s, the last time as: {standing.why}"
        self.acts.mark(why, standing.evidence)
        self.say(f"not restarted any more, and the node is marked: {why}")
        self._tell("replica.out", f"not restarted any more: {why}", Action.RESET_GPU)
        return replace(standing, marked=True)

    def _is_out(self, why: str, problem: str | None, action: Action | None = None) -> None:
        """Say that it gets no requests any more. *problem*: why the gateway was not told so."""
        line = f"out of the gateway: {why}" + (f" ({problem})" if problem else "")
        self.say(line)
        self._tell("replica.out", line, action)

    def _tell(self, kind: str, summary: str, action: Action | None = None) -> None:
        """An event of this replica; the fault that holds one has its own, with what to do."""
        unit = self.replica.unit
        asked = Remediation.step(action, unit) if action else None
        replicas = (self.replica.index,)
        self.memory.tell(Event(kind, summary, "watchdog.replicas", unit, replicas, asked))

    def keep(self, standing: ReplicaState, what: str, detail: str, seconds: float = 0.0) -> None:
        """Remember it, and the step."""
        last = LastStep(timestamp.now(), what, detail, round(seconds * 1000, 1))
        index, unit = self.replica.index, self.replica.unit
        self.memory.keep(index, replace(standing, replica=index, unit=unit, last=last))

    def say(self, line: str) -> None:
        """One line for the journal."""
        say(f"{self.server}: {line}")
