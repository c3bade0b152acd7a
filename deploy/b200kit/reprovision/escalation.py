"""Which rung a failed node needs next: by its findings, its history and its budgets. Pure.

Never below what a finding asks; a rung whose budget is spent, or that the site has not got, is
passed over upwards; what no rung is left for is for hands. A rung that helps for a day again and
again is not tried for ever either: besides the window's budget, `FOR_EVER` times it is all that
thirty windows allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from b200kit.inventory.keys.levels import MIN_LEVEL, Level
from b200kit.node.state.verdict import Action, Finding

FOR_EVER = 3
_LONG = 30
_SOFT = re.compile(r"\.(service|target|timer|path|conf|ko)$|^/")


@dataclass(frozen=True)
class Try:
    """One attempt at a rung: when (seconds since 1970), and what came of it.

    `outcome` is "unfinished", "failed" (the act itself), "did not help" or "cured".
    """

    rung: Level
    at: float
    outcome: str = "unfinished"
    id: str = ""


@dataclass(frozen=True)
class Limits:
    """What may be tried: attempts a rung in the window, and the rungs that the site has not got.

    *lacking* has why: {Rung.POWER_CYCLE: "the inventory names no bmc"}.
    """

    attempts: Mapping[Level, int]
    window_s: float
    lacking: Mapping[Level, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The rung to take, why this one, and which attempt of how many it is.

    REPLACE is for hands: *parts* then name what to look at. *passed* tells of each rung left out.
    """

    rung: Level
    why: str
    attempt: int = 1
    of: int = 1
    parts: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """ "reset GPUs (attempt 1 of 2)" or "hands: replace GPU 4"."""
        if self.rung is Level.REPLACE:
            return f"hands: {asked_of_hands(self.parts)}"
        return f"{self.rung.word.replace('-', ' ')} (attempt {self.attempt} of {self.of})"

    def to_json(self) -> dict[str, Any]:
        """As a line of the transaction keeps it."""
        return {
            "rung": self.rung.word,
            "why": self.why,
            "attempt": self.attempt,
            "of": self.of,
            "parts": list(self.parts),
            "passed": list(self.passed),
        }


def asked_of_hands(parts: Sequence[str]) -> str:
    """What a person is asked to do: parts of software (a unit, a file) are not replaced."""
    if not parts:
        return "no rung is left"
    soft = all(_SOFT.search(part) for part in parts)
    return f"{'look at' if soft else 'replace'} {', '.join(parts)}"


def choose(
    findings: Sequence[Finding],
    history: Iterable[Try],
    limits: Limits,
    now: float,
    least: Level = Level.RESTART_SERVICES,
) -> Decision:
    """The next rung for a node with these blocking findings; *least* is what a person asks for."""
    asked = max((MIN_LEVEL[f.action] for f in findings if f.action in MIN_LEVEL), default=None)
    start = max(asked or least, least)
    tries, passed = list(history), []
    for rung in Level:
        if rung < start or rung is Level.REPLACE:
            continue
        if asked is None and findings and rung > least:
            # Nothing that was found is cured by a higher rung: a clock that is not synchronized.
            passed.append(f"{rung.word}: no finding asks for it")
            continue
        if told := _spent(rung, tries, limits, now):
            passed.append(f"{rung.word}: {told}")
            continue
        number = 1 + _count(rung, tries, now - limits.window_s)
        why = _why(findings, asked, rung, passed)
        return Decision(rung, why, number, limits.attempts[rung], passed=tuple(passed))
    return Decision(
        Level.REPLACE,
        _why(findings, asked, Level.REPLACE, passed),
        1,
        1,
        _parts(findings),
        tuple(passed),
    )


def _spent(rung: Level, tries: Sequence[Try], limits: Limits, now: float) -> str:
    """Why a rung is passed over, or nothing."""
    if rung in limits.lacking:
        return limits.lacking[rung]
    budget = limits.attempts[rung]
    if budget == 0:
        return "its budget is 0"
    if (count := _count(rung, tries, now - limits.window_s)) >= budget:
        return f"tried {count} of {budget} times"
    long = _count(rung, tries, now - _LONG * limits.window_s)
    if long >= FOR_EVER * budget:
        return f"tried {long} times before, and the node failed again"
    return ""


def _count(rung: Level, tries: Sequence[Try], since: float) -> int:
    return sum(1 for attempt in tries if attempt.rung is rung and attempt.at > since)


def _why(
    findings: Sequence[Finding],
    asked: Level | None,
    rung: Level,
    passed: Sequence[str],
) -> str:
    if not findings:
        return "asked for by a person"
    cause = next((f for f in findings if MIN_LEVEL.get(f.action) is asked), findings[0])
    if rung is asked or not passed:
        return cause.summary
    return f"{cause.summary}; {passed[-1]}"


def _parts(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The parts that the worst findings name, each once; a subject where there is no part."""
    worst = max((finding.action for finding in findings), default=Action.NONE)
    named = [f.part or f.subject for f in findings if f.action is worst]
    return tuple(dict.fromkeys(part for part in named if part and part != "node"))
