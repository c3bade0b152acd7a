"""When the watchdog ejects a replica, repairs it, lets it back, and gives up. Pure.

`before` says what to do about a replica from what its unit shows, `after` from what a probe found.
What is remembered in between is a `ReplicaState`, which outlives the watchdog: every step can be
taken again, so one that was killed in the middle goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, ClassVar

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Range
from b200kit.node.state import engine_probe
from b200kit.node.state.verdict import Action

MARK = "/var/lib/b200kit/watchdog-mark.json"
DIRECTORY = "/var/lib/b200kit/agent"
REFUSED = 78
"""The launcher's exit code where no other start can help: its unit's RestartPreventExitStatus."""
ABANDONED = "it ended too often, and systemd does not start it any more"


@dataclass(frozen=True)
class WatchdogRules:
    """How the watchdog judges.

    Every interval_s each replica gets a probe with deadline_s to answer. strikes failures in a row
    eject it; so do requests that wait while no token is made for stall_s, `strikes` golden prompts
    in a row that it answers otherwise than its reference, and as many probes at which it was
    `slower` times as slow as the others. After `ejections` within window_s
    it is not restarted any more.
    """

    interval_s: Annotated[float, Range(0, above=True)] = 15.0
    deadline_s: Annotated[float, Range(0, above=True)] = 20.0
    strikes: Annotated[int, Range(1)] = 2
    stall_s: Annotated[float, Range(0, above=True)] = 60.0
    ejections: Annotated[int, Range(1)] = 3
    window_s: Annotated[float, Range(0, above=True)] = 3600.0
    slower: Annotated[float, Range(1, above=True)] = 3.0


class ProbeOutcome(str, Enum):
    """What came of a probe."""

    ANSWERED = "answered"
    NO_ANSWER = "no answer"
    STALLED = "stalled"
    # No answer in time, but tokens are made: it has too much to do, which no restart repairs.
    BUSY = "busy"
    # It answered a golden prompt otherwise than its reference, often enough; or not yet, and until
    # it is idle nothing more is known.
    WRONG = "wrong answers"
    # Its tokens take several times as long as those of the node's other replicas.
    SLOW = "slow"
    IN_DOUBT = "in doubt"
    # The server says that the request is wrong: nothing is known about the engine behind it.
    REFUSED = "refused"


class ReplicaStep(str, Enum):
    """What is to be done now."""

    LEAVE = "leave"
    PROBE = "probe"
    # Out of the gateway, evidence, restart.
    REPAIR = "repair"
    # Back into the gateway.
    ADMIT = "admit"
    # Out of the gateway, evidence, and the node is marked.
    GIVE_UP = "give up"


@dataclass(frozen=True)
class ReplicaUnit:
    """A replica's unit: systemd's ActiveState, InvocationID, Result and ExecMainStatus."""

    active: str
    invocation: str
    result: str = ""
    exit_status: int = 0

    @property
    def abandoned(self) -> bool:
        """Whether it ended too often for systemd to start it again. Nobody asked for that."""
        return self.active == "failed" and self.result == "start-limit-hit"

    @property
    def reason(self) -> str:
        """Its state, and who wanted it. Restart=always: systemd starts what ends by itself."""
        if self.abandoned:
            return f"{ABANDONED}, nor does the watchdog (exit code {self.exit_status})"
        if self.active == "failed" and self.exit_status == REFUSED:
            return f"its launcher refused to start it (exit code {REFUSED}): run b200 deploy"
        if self.active == "failed" and self.exit_status == engine_probe.FAILED:
            return f"its sandbox lacks something (exit code {engine_probe.FAILED}): run check.py"
        if self.active == "failed":
            return f"its unit failed ({self.result}) when somebody stopped it"
        by = ": somebody stopped it, or its gate let nothing start" * (self.active == "inactive")
        return f"its unit is {self.active}{by}"


@dataclass(frozen=True)
class LastStep:
    """What the watchdog did last about a replica, or what a probe found."""

    at: str
    what: str = ""
    detail: str = ""
    took_ms: Annotated[float, Range(0)] = 0.0


@dataclass(frozen=True)
class ReplicaState:
    """What is remembered of a replica, of one boot.

    out: the watchdog took it out of the gateway and has not put it back. hung: the invocation of
    the unit that must not go on. ejections: when, in seconds since the boot, within the window.
    """

    schema: ClassVar[str] = "b200kit/watchdog-state/1"

    strikes: Annotated[int, Range(0)] = 0
    out: bool = False
    hung: str = ""
    ejections: tuple[float, ...] = ()
    given_up: bool = False
    # The gateway has confirmed that it is out.
    out_of_rotation: bool = False
    # The node was marked for it; a mark that is gone then was removed by a person.
    marked: bool = False
    why: str = ""
    evidence: str = ""
    # The fault of the node for which it is out, as long as that is confirmed.
    held: str = ""
    # The probe's outcome that ejected it; none where its unit failed.
    found: str = ""
    replica: int | None = field(default=None, compare=False)
    unit: str = field(default="", compare=False)
    last: LastStep | None = field(default=None, compare=False)


@dataclass(frozen=True)
class WatchdogMark:
    """The mark of a node that needs manual repair: who set it, when, why, where the evidence is."""

    schema: ClassVar[str] = "b200kit/watchdog-mark/1"

    who: str = "somebody"
    when: str = "an unknown time"
    why: str = "it does not say why"
    evidence: str = ""
    action: Action = Action.MONITOR

    def __str__(self) -> str:
        """On one line, with what ends it."""
        evidence = f"; look at {self.evidence}" if self.evidence else ""
        until = f"once it is repaired: rm {MARK}"
        return f"marked by {self.who} at {self.when}: {self.why}{evidence}; {until}"


def mark_of(document: object) -> WatchdogMark:
    """A mark that was read; one that is not understood marks the node all the same."""
    return documents.understood(WatchdogMark, document) or WatchdogMark()


def before(
    standing: ReplicaState, observed: ReplicaUnit, rules: WatchdogRules, now: float
) -> tuple[ReplicaState, ReplicaStep]:
    """What the unit alone calls for. One that somebody stopped, that starts or stops is left alone.

    One that ended by itself is active again, or systemd has given it up.
    """
    if standing.given_up:
        return standing, ReplicaStep.LEAVE
    if observed.active == "active":
        # Found hung, and never restarted: the watchdog ended in between.
        hung = standing.out and observed.invocation == standing.hung
        return standing, ReplicaStep.REPAIR if hung else ReplicaStep.PROBE
    if standing.out and standing.why == ABANDONED:
        # One more start did not help, and no other will: what it is started with is at fault.
        return standing, ReplicaStep.LEAVE
    if standing.out and observed.active == "failed":
        return eject(standing, observed, "its unit failed after a restart", rules, now)
    if observed.abandoned:
        return eject(standing, observed, ABANDONED, rules, now)
    return standing, ReplicaStep.LEAVE


def after(
    standing: ReplicaState,
    observed: ReplicaUnit,
    found: ProbeOutcome,
    why: str,
    rules: WatchdogRules,
    now: float,
) -> tuple[ReplicaState, ReplicaStep]:
    """What a probe calls for."""
    if found is ProbeOutcome.ANSWERED:
        step = ReplicaStep.ADMIT if standing.out else ReplicaStep.LEAVE
        return replace(standing, strikes=0), step
    if found is ProbeOutcome.BUSY:
        return replace(standing, strikes=0), ReplicaStep.LEAVE
    if found in (ProbeOutcome.REFUSED, ProbeOutcome.IN_DOUBT):
        return standing, ReplicaStep.LEAVE
    strikes = (
        rules.strikes
        if found in (ProbeOutcome.STALLED, ProbeOutcome.WRONG)
        else standing.strikes + 1
    )
    if strikes < rules.strikes:
        return replace(standing, strikes=strikes, why=why), ReplicaStep.LEAVE
    ejected, step = eject(standing, observed, why, rules, now)
    return replace(ejected, found=found.value), step


def eject(
    standing: ReplicaState, observed: ReplicaUnit, why: str, rules: WatchdogRules, now: float
) -> tuple[ReplicaState, ReplicaStep]:
    """One ejection more: restarted, or given up where there were too many of late."""
    recent = (*(at for at in standing.ejections if now - at < rules.window_s), now)
    fresh = ReplicaState(
        out=True,
        out_of_rotation=standing.out_of_rotation,
        hung=observed.invocation,
        ejections=recent,
        why=why,
    )
    if len(recent) < rules.ejections:
        return fresh, ReplicaStep.REPAIR
    return replace(fresh, given_up=True), ReplicaStep.GIVE_UP


def hold(standing: ReplicaState, why: str) -> ReplicaState:
    """Out of the gateway for a fault of the node, which no restart of the replica mends."""
    return replace(standing, out=True, held=why, why=why)


def release(standing: ReplicaState) -> ReplicaState:
    """The fault is over: out until the next probe is answered."""
    return replace(standing, held="")


def admitted(standing: ReplicaState) -> ReplicaState:
    """The standing of a replica that is back in the gateway; its ejections are remembered."""
    return ReplicaState(ejections=standing.ejections)


def forgiven(standing: ReplicaState) -> ReplicaState:
    """The standing once a person removed the mark: out, to be repaired as if for the first time."""
    why = "a person removed the mark"
    return ReplicaState(
        out=True, out_of_rotation=standing.out_of_rotation, hung=standing.hung, why=why
    )
