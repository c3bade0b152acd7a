"""Golden answers of all replicas against kept ones, and what that makes of a smoke test. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from b200kit.node.client.golden.answer import Answer
from b200kit.node.client.golden.compare import HARMLESS, AnswersJudgement, Likeness, compare
from b200kit.node.client.golden.replicas import REMEDY, GoldenResult
from b200kit.node.lib.documents import unstructure


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


def changes(
    smoke: Mapping[str, Any], golden: GoldenResult, found: AnswersJudgement
) -> dict[str, Any]:
    """What a comparison changes in a smoke document whose `golden` has answers.

    A replica that answers otherwise fails the test, whatever else is in doubt; what cannot be
    compared is not healthy. Answers that are the reference's are not kept.
    """
    is_harmless = found.outcome in HARMLESS
    golden = replace(golden, reference=found, answers={} if is_harmless else golden.answers)
    changed = {"golden": unstructure(golden)}
    if is_harmless:
        return changed
    reasons = list(smoke.get("reasons") or [])
    if found.faults:
        return changed | {"verdict": "fail", "reasons": [*found.faults, *reasons]}
    reasons += [f"answers cannot be compared: {found.why}"]
    verdict = "invalid" if smoke.get("verdict") == "pass" else smoke.get("verdict")
    return changed | {"verdict": verdict, "reasons": reasons}
