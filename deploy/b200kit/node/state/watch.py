"""When a fault that is seen while a node serves counts, and when it is over. Pure.

Single polls cry wolf: 214 of 288 nodes were reported with NVLink down by them, and not one had a
fault (NVSentinel #1701). A fault counts once it was seen in several of the last health checks, and
it is over once it was looked for and not found several times in a row. A health check that could
not see says neither: it confirms nothing and clears nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Final, Literal

from b200kit.node.lib.documents import NEEDED, Range
from b200kit.node.state.growth import Counters
from b200kit.node.state.verdict import Finding, Fit, Status, Verdict

FAULT: Final = "fault"
SOUND: Final = "sound"
UNKNOWN: Final = "unknown"
Sign = Literal["fault", "sound", "unknown"]

Touched = Callable[[Finding], tuple[int, ...]]
"""The replicas that a finding is about, by index."""


@dataclass(frozen=True)
class HealthRules:
    """A fault counts when `confirm` of the last `health_checks` saw it; `clear` without end it."""

    confirm: Annotated[int, Range(1)] = 2
    health_checks: Annotated[int, Range(1)] = 3
    clear: Annotated[int, Range(1)] = 3


@dataclass(frozen=True)
class NodeFault:
    """One finding over time. *signs*: what the last health checks said of it, the newest last."""

    finding: Finding
    replicas: tuple[int, ...]
    since: str
    signs: tuple[Sign, ...] = field(default=(), metadata=NEEDED)
    confirmed: bool = field(default=False, metadata=NEEDED)

    @property
    def key(self) -> str:
        """What it is remembered under."""
        return key(self.finding)

    def after(self, sign: Sign, rules: HealthRules) -> NodeFault:
        """The same after one more health check."""
        signs = (*self.signs, sign)[-max(rules.health_checks, rules.clear) :]
        seen = signs[-rules.health_checks :].count(FAULT) >= rules.confirm
        over = signs[-rules.clear :] == (SOUND,) * rules.clear
        return replace(self, signs=signs, confirmed=not over if self.confirmed else seen)


@dataclass(frozen=True)
class HealthCheck:
    """What the last health check at a serving node left.

    boot_s: when it began, seconds since the boot; took_s: for how long it looked. running: replicas
    by index, None where nobody looked. fit: all of the node; fit_serving: what is left once the
    faults in set_aside, by key, took their replicas out. None, as bandwidth: nothing was judged.
    gpus: readings that change with the load. certificates: file to when it ends, "" if that was
    not read. remediation: what confirmed faults ask for.
    """

    schema: ClassVar[str] = "b200kit/watch/1"
    most_bytes: ClassVar[int] = 4 << 20

    taken_at: str
    boot_s: Annotated[float, Range(0)]
    in_service: bool
    faults: tuple[NodeFault, ...]
    took_s: Annotated[float, Range(0)] = 0.0
    on_trial: bool = False
    running: tuple[int, ...] | None = None
    fit: Fit | None = None
    set_aside: tuple[str, ...] = ()
    fit_serving: Fit | None = None
    bandwidth: Status | None = None
    gpus: tuple[dict[str, int], ...] = ()
    certificates: dict[str, str] = field(default_factory=dict)
    counters: Counters | None = None
    remediation: tuple[dict[str, str], ...] = ()

    @property
    def confirmed(self) -> list[NodeFault]:
        """The faults that count."""
        return [fault for fault in self.faults if fault.confirmed]

    @property
    def is_taken_out(self) -> bool:
        """Whether the node was out of service, and not on trial."""
        return not self.in_service and not self.on_trial


def key(finding: Finding) -> str:
    """One fault: its check and what it is about."""
    return f"{finding.check} {finding.subject}"


def looked(
    known: Collection[NodeFault], verdict: Verdict, touched: Touched, rules: HealthRules, now: str
) -> tuple[NodeFault, ...]:
    """What is known after a health check. *now*: the time of it, as a text."""
    failing = {key(f): f for f in reversed(verdict.findings) if f.status is Status.FAIL}
    unread = {f.check for f in verdict.findings if f.status is Status.UNMEASURED}
    judged = {f.check for f in verdict.findings} - unread
    faults = {fault.key: fault for fault in known}
    found = []
    for name in {**faults, **failing}:
        if finding := failing.get(name):
            fault = faults.get(name) or NodeFault(finding, (), now)
            fault = replace(fault, finding=finding, replicas=touched(finding))
            found.append(fault.after(FAULT, rules))
        else:
            sign: Sign = SOUND if faults[name].finding.check in judged else UNKNOWN
            found.append(faults[name].after(sign, rules))
    return tuple(fault for fault in found if fault.confirmed or FAULT in fault.signs)


def is_named(finding: Finding, takes_out: Collection[str]) -> bool:
    """Whether a finding's check is among *takes_out*: checks, or first words of their ids."""
    return bool({finding.check, finding.check.partition(".")[0]} & {*takes_out})


def out(faults: Collection[NodeFault], takes_out: Collection[str]) -> dict[int, str]:
    """Replica to why it may get no requests."""
    reasons: dict[int, str] = {}
    for fault in faults:
        if fault.confirmed and is_named(fault.finding, takes_out):
            for index in fault.replicas:
                reasons.setdefault(index, fault.finding.summary)
    return reasons


def may_serve(look: HealthCheck | None, replica: int) -> bool:
    """Whether a replica serves for all that is known: what no check has seen is taken to serve."""
    if look is None:
        return True
    return not look.is_taken_out and (look.running is None or replica in look.running)


def set_aside(faults: Collection[NodeFault], takes_out: Collection[str]) -> set[str]:
    """Confirmed faults, by `key`, that touch nothing that serves.

    Their replicas are all out for one, or they are of no replica and only reported.
    """
    gone = set(out(faults, takes_out))
    aside = (f for f in faults if f.confirmed and gone >= {*f.replicas})
    return {f.key for f in aside if f.replicas or not is_named(f.finding, takes_out)}


def changes(
    before: Collection[NodeFault], after: Collection[NodeFault]
) -> list[tuple[str, NodeFault]]:
    """What a person wants to know of a health check: ("confirmed" or "over", fault)."""
    was = {fault.key: fault for fault in before if fault.confirmed}
    now = {fault.key: fault for fault in after if fault.confirmed}
    began = [("confirmed", fault) for name, fault in now.items() if name not in was]
    return began + [("over", fault) for name, fault in was.items() if name not in now]
