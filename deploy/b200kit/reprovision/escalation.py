"""Which remediation level a failed node needs next: by findings, history and budgets. Pure.

Never below what a finding requires; a level whose budget is spent, or that the site does not have,
is skipped upwards, but never up to a new image: that wipes the disk, for a fault that the level
left out might have cured. When every level is exhausted a person must act. A level that helps for
a day again and again is not tried for ever either: besides the window's budget, `FOR_EVER` times it
is all that thirty windows allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from b200kit.inventory.keys.levels import MIN_LEVEL, Level
from b200kit.node.state.verdict import Action, Finding

FOR_EVER = 3
_LONG = 30
_SOFT = re.compile(r"\.(service|target|timer|path|conf|ko)$|^/")


@dataclass(frozen=True)
class Attempt:
    """One attempt at a level: when (seconds since 1970), and what came of it.

    `outcome` is "unfinished", "failed" (the action itself), "did not help" or "cured".
    """

    level: Level
    at: float
    outcome: str = "unfinished"
    id: str = ""


@dataclass(frozen=True)
class EscalationLimits:
    """What may be tried: attempts a level in the window, and levels that the site does not have.

    *unavailable* has why: {Level.POWER_CYCLE: "the inventory names no bmc"}.
    """

    attempts: Mapping[Level, int]
    window_s: float
    unavailable: Mapping[Level, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The level to take, why this one, and which attempt of how many it is.

    REPLACE is manual repair: *parts* then name what to look at. *passed* has each level left out.
    One that is *missing* something, in words, cannot be taken, and nothing higher may be.
    """

    level: Level
    why: str
    attempt: int = 1
    of: int = 1
    parts: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    missing: str = field(default="", metadata={"document": False})

    @property
    def text(self) -> str:
        """ "reset GPUs (attempt 1 of 2)" or "manual repair: replace GPU 4"."""
        if self.missing:
            return f"stop: the next level is {self.level.word}, and {self.missing}"
        if self.level is Level.REPLACE:
            return f"manual repair: {manual_repair_text(self.parts)}"
        return f"{self.level.word.replace('-', ' ')} (attempt {self.attempt} of {self.of})"


def manual_repair_text(parts: Sequence[str]) -> str:
    """What a person must do: parts of software (a unit, a file) are not replaced."""
    if not parts:
        return "no level is left"
    soft = all(_SOFT.search(part) for part in parts)
    return f"{'look at' if soft else 'replace'} {', '.join(parts)}"


def choose(
    findings: Sequence[Finding],
    history: Iterable[Attempt],
    limits: EscalationLimits,
    now: float,
    least: Level = Level.RESTART_SERVICES,
) -> Decision:
    """The next level for a node with these blocking findings; *least* is what a person requests."""
    required = max((MIN_LEVEL[f.action] for f in findings if f.action in MIN_LEVEL), default=None)
    start = max(required or least, least)
    attempts, passed, untried = list(history), [], None
    for level in Level:
        if level < start or level is Level.REPLACE:
            continue
        if required is None and findings and level > least:
            # Nothing that was found is cured by a higher level: a clock that is not synchronized.
            passed.append(f"{level.word}: no finding requires it")
            continue
        if reason := _spent(level, attempts, limits, now):
            passed.append(f"{level.word}: {reason}")
            possible = level not in limits.unavailable and limits.attempts[level]
            untried = None if possible else untried or (level, reason)
            continue
        if level is Level.REIMAGE and untried:
            lower, missing = untried
            why = _why(findings, required, lower, ())
            return Decision(lower, why, passed=tuple(passed), missing=missing)
        number = 1 + _count(level, attempts, now - limits.window_s)
        why = _why(findings, required, level, passed)
        return Decision(level, why, number, limits.attempts[level], passed=tuple(passed))
    return Decision(
        Level.REPLACE,
        _why(findings, required, Level.REPLACE, passed),
        1,
        1,
        _parts(findings),
        tuple(passed),
    )


def _spent(level: Level, attempts: Sequence[Attempt], limits: EscalationLimits, now: float) -> str:
    """Why a level is passed over, or nothing."""
    if level in limits.unavailable:
        return limits.unavailable[level]
    budget = limits.attempts[level]
    if budget == 0:
        return "its budget is 0"
    if (count := _count(level, attempts, now - limits.window_s)) >= budget:
        return f"tried {count} of {budget} times"
    long = _count(level, attempts, now - _LONG * limits.window_s)
    if long >= FOR_EVER * budget:
        return f"tried {long} times before, and the node failed again"
    return ""


def _count(level: Level, attempts: Sequence[Attempt], since: float) -> int:
    return sum(1 for attempt in attempts if attempt.level is level and attempt.at > since)


def _why(
    findings: Sequence[Finding], required: Level | None, level: Level, passed: Sequence[str]
) -> str:
    if not findings:
        return "requested by a person"
    cause = next((f for f in findings if MIN_LEVEL.get(f.action) is required), findings[0])
    if level is required or not passed:
        return cause.summary
    return f"{cause.summary}; {passed[-1]}"


def _parts(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The parts that the worst findings name, each once; a subject where there is no part."""
    worst = max((finding.action for finding in findings), default=Action.NONE)
    named = [f.part or f.subject for f in findings if f.action is worst]
    return tuple(dict.fromkeys(part for part in named if part and part != "node"))
