"""The replicas' golden answers against each other: which one is wrong, and whether that is known.

Replicas of one node serve the same weights with the same engine: they answer alike. With most of
them alike the others are named; where no such majority is, none is blamed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from b200kit.node.client import golden_answer
from b200kit.node.client.golden import Replies
from b200kit.node.client.golden_answer import Answer
from b200kit.node.client.golden_compare import Difference, Likeness, compare
from b200kit.node.client.golden_prompts import PROMPTS, SET, TOLERANCE

REMEDY = "restart it; if it stays so, test the GPUs under it"


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
            if found.likeness is likeness and not found.explained:
                yield f"{name}: answers otherwise than the other replicas: {found.words}; {REMEDY}"

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

    def document(self) -> dict[str, object]:
        """`golden` of the smoke document. Answers that equal earlier ones are not repeated."""
        kept: dict[str, object] = {}
        for name, answers in self._answers.items():
            own = golden_answer.document(answers)
            kept[name] = next((other for other, said in kept.items() if said == own), own)
        return {
            "set": SET,
            "tokens": self.tokens,
            "tolerance": self.tolerance,
            "requests": len(PROMPTS) * len(self.replies),
            "seconds": round(max((s.seconds for s in self.replies.values()), default=0.0), 3),
            "replicas": {name: one.document() for name, one in self.differences.items()},
            "agreed": bool(self.agreed),
            "doubt": self.doubt,
            "answers": kept,
        }


def answers_of(document: object) -> dict[str, tuple[Answer, ...]]:
    """Path to answers, from `Golden.document`. Raises ValueError for what is none."""
    kept = document.get("answers") if isinstance(document, dict) else None
    if not isinstance(kept, dict):
        raise ValueError("there are no golden answers")
    whole = {name: kept.get(said) if isinstance(said, str) else said for name, said in kept.items()}
    return {name: golden_answer.restored(said) for name, said in whole.items()}
