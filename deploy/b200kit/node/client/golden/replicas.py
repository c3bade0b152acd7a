"""The replicas' golden answers against each other: which one is wrong, and whether that is known.

Replicas of one node serve the same weights with the same engine: they answer alike. With most of
them alike the others are named; where no such majority is, none is blamed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from b200kit.node.client.golden import answer as golden_answer
from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.ask import Replies
from b200kit.node.client.golden.compare import AnswersJudgement, Difference, Likeness, compare
from b200kit.node.client.golden.prompts import PROMPTS, SET, TOLERANCE
from b200kit.node.lib import documents

REMEDY = "restart it; if it stays so, test the GPUs under it"


@dataclass(frozen=True)
class GoldenResult:
    """What the replicas answered, beside most of them and the reference, if that was done.

    answers: by path as "direct-0"; the name of another path where that one said the same.
    """

    most_bytes: ClassVar[int] = documents.LARGE

    set: str
    tokens: int
    tolerance: float
    requests: int
    seconds: float
    replicas: Mapping[str, Difference]
    agreed: bool
    doubt: str
    answers: Mapping[str, tuple[Answer, ...] | str]
    reference: AnswersJudgement | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a path that refers to none with answers."""
        if not all(one and all(one) for one in self.said.values()):
            raise ValueError("answers: these are no golden answers")

    @property
    def said(self) -> dict[str, tuple[Answer, ...]]:
        """Path to answers."""
        whole = {
            n: self.answers.get(s) if isinstance(s, str) else s for n, s in self.answers.items()
        }
        return {name: said if isinstance(said, tuple) else () for name, said in whole.items()}


@dataclass(frozen=True)
class Golden:
    """What each replica said, by path as "direct-0". tokens: asked for a prompt."""

    replies: Mapping[str, Replies]
    tokens: int
    tolerance: float = TOLERANCE

    @cached_property
    def _answers(self) -> dict[str, tuple[Answer, ...]]:
        return {name: said.answers for name, said in self.replies.items() if said.answers}

    @cached_property
    def _most(self) -> list[str]:
        """A replica and those that answer like it, if they are more than half; else empty."""
        names = list(self._answers)
        groups = [[one, *(n for n in names if n != one and self._alike(one, n))] for one in names]
        largest = max(groups, key=len, default=[])
        return largest if len(largest) * 2 > len(self.replies) else []

    def _alike(self, one: str, other: str) -> bool:
        return self._against(one, other).explained

    def _against(self, one: str, other: str) -> Difference:
        return compare(self._answers[one], self._answers[other], self.tolerance)

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """Each replica against one that most are like; empty where there is none."""
        return {name: self._against(name, self._most[0]) for name in self._answers if self._most}

    @property
    def wrong(self) -> list[str]:
        """What is wrong with a replica by itself, or beside the others: a line each."""
        return [*self._no_answers(), *self._blamed(Likeness.DIFFERENT)]

    @property
    def drifted(self) -> list[str]:
        """Replicas with the majority's tokens and other log-probabilities than rounding makes.

        Requests of others that are computed along may do the same.
        """
        return [*self._blamed(Likeness.DRIFTED)]

    def _no_answers(self) -> Iterator[str]:
        for name, said in self.replies.items():
            if said.error:
                yield f"{name}: {said.error}"
            elif stuck := golden_answer.degenerate(said.answers):
                yield f"{name}: {stuck}: it does not read its prompts"

    def _blamed(self, likeness: Likeness) -> Iterator[str]:
        for name, found in self.differences.items():
            if found.outcome is likeness and not found.explained:
                yield f"{name}: answers otherwise than the other replicas: {found.why}; {REMEDY}"

    @property
    def doubt(self) -> str:
        """Why the answers were not judged; empty where they were."""
        for name, said in self.replies.items():
            if said.unmeasured:
                return f"{name}: answers were not compared: {said.unmeasured} (smoke.golden_tokens)"
        if self.replies and not self._most and not self.wrong:
            names = ", ".join(self.replies)
            return f"{names}: answers differ, and no majority tells which are right"
        return ""

    @property
    def agreed(self) -> tuple[Answer, ...]:
        """The majority's answers where all replicas have them; else none."""
        sound = self.replies and not (self.wrong or self.drifted or self.doubt)
        return self._answers[self._most[0]] if sound else ()

    def result(self) -> GoldenResult:
        """`golden` of the smoke document. Answers that equal earlier ones are not repeated."""
        kept: dict[str, tuple[Answer, ...] | str] = {}
        for name, own in self._answers.items():
            kept[name] = next((other for other, said in kept.items() if said == own), own)
        return GoldenResult(
            set=SET,
            tokens=self.tokens,
            tolerance=self.tolerance,
            requests=len(PROMPTS) * len(self.replies),
            seconds=round(max((s.seconds for s in self.replies.values()), default=0.0), 3),
            replicas=self.differences,
            agreed=bool(self.agreed),
            doubt=self.doubt,
            answers=kept,
        )


def against(
    kept: Sequence[Answer], of: str, replicas: Mapping[str, Sequence[Answer]], tolerance: float
) -> AnswersJudgement:
    """Replicas against kept answers; *of*: whose, and when they were given."""
    found = {name: compare(said, kept, tolerance) for name, said in replicas.items()}
    worst = max(found.values(), key=lambda one: one.rank)
    of = f"the reference of {of}"
    faults = tuple(
        f"{name}: answers otherwise than {of}: {one.why}; {REMEDY}"
        for name, one in found.items()
        if one.outcome is Likeness.DIFFERENT
    )
    why = [f"{name}: {one.why}" for name, one in found.items() if one.why]
    return AnswersJudgement(worst.outcome.word, "; ".join([of, *why]), faults)
