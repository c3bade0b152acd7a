"""Golden answers of all replicas against kept ones, and what that makes of a smoke test. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.compare import Likeness, compare
from b200kit.node.client.golden.replicas import REMEDY

HARMLESS = ("accepted", "same", "drifted", "none")
"""Outcomes that turn no node red: drift of all alike is reported; a new launch may cause it."""


@dataclass(frozen=True)
class AnswersJudgement:
    """What came of a comparison. outcome: `accepted same drifted different none unmeasured`.

    why: one line. faults: a line for each replica that answers otherwise.
    """

    outcome: str
    why: str
    faults: tuple[str, ...] = ()


def against(
    kept: Sequence[Answer], of: str, replicas: Mapping[str, Sequence[Answer]], tolerance: float
) -> AnswersJudgement:
    """Replicas against kept answers; *of*: whose, and when they were given."""
    found = {name: compare(said, kept, tolerance) for name, said in replicas.items()}
    worst = max(found.values(), key=lambda one: one.rank)
    of = f"the reference of {of}"
    faults = tuple(
        f"{name}: answers otherwise than {of}: {one.words}; {REMEDY}"
        for name, one in found.items()
        if one.likeness is Likeness.DIFFERENT
    )
    why = [f"{name}: {one.words}" for name, one in found.items() if one.words]
    return AnswersJudgement(str(worst.likeness), "; ".join([of, *why]), faults)


def changes(smoke: Mapping[str, Any], found: AnswersJudgement) -> dict[str, Any]:
    """What a comparison changes in a smoke document whose `golden` has answers.

    A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
    compared is not healthy.
    """
    reference = {"outcome": found.outcome, "why": found.why}
    golden = {"golden": _slim(smoke["golden"], found.outcome) | {"reference": reference}}
    if found.outcome in HARMLESS:
        return golden
    reasons = list(smoke.get("reasons") or [])
    if found.faults:
        return golden | {"verdict": "fail", "reasons": [*found.faults, *reasons]}
    reasons += [f"answers cannot be compared: {found.why}"]
    verdict = "invalid" if smoke.get("verdict") == "pass" else smoke.get("verdict")
    return golden | {"verdict": verdict, "reasons": reasons}


def _slim(document: Mapping[str, Any], outcome: str) -> dict[str, Any]:
    """Without the answers, where they are the reference's."""
    return {k: v for k, v in document.items() if k != "answers" or outcome not in HARMLESS}
