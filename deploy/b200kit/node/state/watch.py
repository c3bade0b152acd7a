"""When a fault that is seen while a node serves counts, and when it is over. Pure.

Single polls cry wolf: 214 of 288 nodes were reported with NVLink down by them, and not one had a
fault (NVSentinel #1701). A fault counts once it was seen in several of the last looks, and it is
over once it was looked for and not found several times in a row. A look that could not see says
neither: it confirms nothing and clears nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from b200kit.node.lib.documents import Range
from b200kit.node.state.verdict import Finding, Status, Verdict

SCHEMA = "b200kit/watch/1"
FAULT, SOUND, UNKNOWN = "fault", "sound", "unknown"

Touched = Callable[[Finding], tuple[int, ...]]
"""The replicas that a finding is about, by index."""


@dataclass(frozen=True)
class Rules:
    """A fault counts when `confirm` of the last `looks` saw it; `clear` looks without it end it."""

    confirm: Annotated[int, Range(1)] = 2
    looks: Annotated[int, Range(1)] = 3
    clear: Annotated[int, Range(1)] = 3


@dataclass(frozen=True)
class Fault:
    """One finding over time. *signs*: what the last looks said of it, the newest last."""

    finding: Finding
    replicas: tuple[int, ...]
    since: str
    signs: tuple[str, ...] = ()
    confirmed: bool = False

    @property
    def key(self) -> str:
        """What it is remembered under."""
        return key(self.finding)

    def after(self, sign: str, rules: Rules) -> Fault:
        """The same after one more look."""
        signs = (*self.signs, sign)[-max(rules.looks, rules.clear) :]
        seen = signs[-rules.looks :].count(FAULT) >= rules.confirm
        over = signs[-rules.clear :] == (SOUND,) * rules.clear
        return replace(self, signs=signs, confirmed=not over if self.confirmed else seen)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "finding": self.finding.to_json(), "signs": list(self.signs)}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Fault:
        """One read back. Raises KeyError, TypeError or ValueError where it is malformed."""
        return cls(
            Finding.from_json(entry["finding"]),
            tuple(int(index) for index in entry["replicas"]),
            str(entry["since"]),
            tuple(str(sign) for sign in entry["signs"]),
            entry["confirmed"] is True,
        )


def key(finding: Finding) -> str:
    """One fault: its check and what it is about."""
    return f"{finding.check} {finding.subject}"


def looked(
    known: Collection[Fault], verdict: Verdict, touched: Touched, rules: Rules, now: str
) -> list[Fault]:
    """What is known after a look. *now*: the time of it, as a text."""
    failing = {key(f): f for f in reversed(verdict.findings) if f.status is Status.FAIL}
    unread = {f.check for f in verdict.findings if f.status is Status.UNMEASURED}
    judged = {f.check for f in verdict.findings} - unread
    faults = {fault.key: fault for fault in known}
    found = []
    for name in {**faults, **failing}:
        if finding := failing.get(name):
            fault = faults.get(name) or Fault(finding, (), now)
            fault = replace(fault, finding=finding, replicas=touched(finding))
            found.append(fault.after(FAULT, rules))
        else:
            sign = SOUND if faults[name].finding.check in judged else UNKNOWN
            found.append(faults[name].after(sign, rules))
    return [fault for fault in found if fault.confirmed or FAULT in fault.signs]


def out(faults: Collection[Fault], takes_out: Collection[str]) -> dict[int, str]:
    """Replica to why it may get no requests; *takes_out*: checks, or first words of their ids."""
    reasons: dict[int, str] = {}
    for fault in faults:
        group = fault.finding.check.partition(".")[0]
        if fault.confirmed and {fault.finding.check, group} & set(takes_out):
            for index in fault.replicas:
                reasons.setdefault(index, fault.finding.summary)
    return reasons


def is_taken_out(look: Mapping[str, Any]) -> bool:
    """Whether the node was out of service, and not on trial, when it was looked at."""
    return look.get("in_service") is False and look.get("on_trial") is not True


def may_serve(look: Mapping[str, Any], replica: int) -> bool:
    """Whether a replica serves for all that is known: what no look has seen is taken to serve."""
    running = look.get("running")
    ran = not isinstance(running, list) or replica in running
    return ran and not is_taken_out(look)


def set_aside(faults: Collection[Fault], takes_out: Collection[str]) -> set[str]:
    """Faults, by `key`, whose replicas are all out for one: they touch nothing that serves."""
    gone = set(out(faults, takes_out))
    return {f.key for f in faults if f.confirmed and f.replicas and gone >= {*f.replicas}}


def changes(before: Collection[Fault], after: Collection[Fault]) -> list[tuple[str, Fault]]:
    """What a person wants to know of a look: ("confirmed" or "over", fault)."""
    was = {fault.key: fault for fault in before if fault.confirmed}
    now = {fault.key: fault for fault in after if fault.confirmed}
    began = [("confirmed", fault) for name, fault in now.items() if name not in was]
    return began + [("over", fault) for name, fault in was.items() if name not in now]


def faults_of(document: object) -> list[Fault]:
    """The faults that an earlier look of this boot left. Raises ValueError: not understood."""
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        raise ValueError(f"it is no document of schema {SCHEMA}")
    try:
        return [Fault.from_json(entry) for entry in document["faults"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"its faults are malformed: {type(error).__name__}: {error}") from None
