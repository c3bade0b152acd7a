"""Whether golden answers are the same, drifted or different. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from b200kit.node.client.golden.answer import Answer, Token
from b200kit.node.client.golden.prompts import TOLERANCE


class Likeness(IntEnum):
    """How two answers stand to each other; the larger, the worse."""

    SAME = 0
    DRIFTED = 1
    """The same tokens with other log-probabilities, or others where two were nearly tied."""
    DIFFERENT = 2

    @property
    def word(self) -> str:
        """As documents and messages say it."""
        return self.name.lower()


@dataclass(frozen=True)
class Difference:
    """Answers compared: the worst that was found.

    nats: the largest distance of two log-probabilities up to there. explained: whether rounding
    may have made it, as where two tokens were nearly tied. why: where, empty for the same.
    """

    outcome: Likeness = Likeness.SAME
    nats: float = 0.0
    explained: bool = field(default=True, metadata={"document": False})
    why: str = ""

    @property
    def rank(self) -> tuple[int, bool, float]:
        """The larger, the worse."""
        return self.outcome, not self.explained, self.nats


HARMLESS = ("accepted", "same", "drifted", "none")
"""Outcomes that turn no node red: drift of all alike is reported, as a new launch may cause it, and
the only replica of a site has nobody to be compared with."""


@dataclass(frozen=True)
class AnswersJudgement:
    """What came of a comparison with kept answers. outcome: HARMLESS, `different`, `unmeasured`.

    why: one line. faults: a line for each replica that answers otherwise.
    """

    outcome: str
    why: str
    faults: tuple[str, ...] = field(default=(), metadata={"document": False})


def compare(
    ours: Sequence[Answer], theirs: Sequence[Answer], tolerance: float = TOLERANCE
) -> Difference:
    """The worst difference over all prompts, of two equally bad ones the larger.

    tolerance: nats that rounding explains (golden/prompts.py). Answers of another number or length
    are different.
    """
    if len(ours) != len(theirs):
        return _different(f"{len(ours)} answers against {len(theirs)}")
    found = []
    for number, (own, other) in enumerate(zip(ours, theirs, strict=True), 1):
        one = _of_prompt(own, other, tolerance)
        found.append(replace(one, why=one.why and f"prompt {number}, {one.why}"))
    return max(found, key=lambda one: one.rank, default=_different("no answers"))


def _different(why: str, nats: float = 0.0) -> Difference:
    return Difference(Likeness.DIFFERENT, nats, explained=False, why=why)


def _of_prompt(ours: Answer, theirs: Answer, tolerance: float) -> Difference:
    worst, at = 0.0, 0
    for number, (own, other) in enumerate(zip(ours, theirs, strict=False), 1):
        nats = round(max(_distances(own, other), default=0.0), 4)
        worst, at = (nats, number) if nats > worst else (worst, at)
        if own.text != other.text:
            return _parted(own, other, number, worst, tolerance)
    if len(ours) != len(theirs):
        return _different(f"{len(ours)} tokens against {len(theirs)}", worst)
    if worst <= tolerance:
        return Difference(nats=worst)
    return Difference(Likeness.DRIFTED, worst, explained=False, why=_apart(at, worst, tolerance))


def _apart(token: int, nats: float, tolerance: float) -> str:
    return f"token {token}: log-probabilities {nats:.3g} apart (tolerance {tolerance:g})"


def _parted(own: Token, other: Token, number: int, worst: float, tolerance: float) -> Difference:
    """Where answers go apart: at tokens that were nearly tied for both, or not."""
    words = f"token {number}: {own.text!r} against {other.text!r}"
    if max(_lead(own, other.text), _lead(other, own.text)) > tolerance:
        return _different(words, worst)
    return Difference(Likeness.DRIFTED, worst, worst <= tolerance, f"{words}, nearly tied")


def _lead(token: Token, text: str) -> float:
    """By how much a token was likelier than another; without end if that was not near."""
    return token.logprob - token.top.get(text, -math.inf)


def _distances(own: Token, other: Token) -> Iterator[float]:
    """Of tokens that both name; of one that only one names, the least that it can be."""
    for one, two in ((own, other), (other, own)):
        least = min(two.top.values(), default=math.inf)
        for text, value in one.top.items():
            yield abs(value - two.top[text]) if text in two.top else max(0.0, value - least)
