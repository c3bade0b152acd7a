"""What the node makes of its own smoke test: the document that the controller would keep. Pure.

Answers are held against the reference that the last accepted smoke test left here. The baseline of
the node's own record is the controller's, and the next run of it compares with that again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from b200kit.node.client.golden import judged
from b200kit.node.client.golden.compare import AnswersJudgement
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.golden.replicas import GoldenResult, answered
from b200kit.node.lib import timestamp

COMPARISON: dict[str, Any] = {
    "outcome": "none",
    "why": "the node measured itself, and its record is the controller's",
    "metrics": {},
    "baseline": None,
}


def document(
    smoke: Mapping[str, Any], before: object, reference: Reference | None
) -> dict[str, Any]:
    """A smoke document as measured, with its answers judged. *before*: the one it takes over from.

    It holds for the state that *before* held for (`fingerprint`) where the servers are the same
    processes; otherwise the controller measures again, as it does not know that one.
    """
    kept = dict(smoke) | {"comparison": COMPARISON}
    golden = answered(smoke.get("golden"))
    if golden and golden.answers:
        kept |= judged.changes(smoke, golden, _found(golden, reference))
    known = before if isinstance(before, Mapping) else {}
    if "fingerprint" in known and _are_same_servers(smoke, known):
        kept["fingerprint"] = known["fingerprint"]
    return kept


def _found(golden: GoldenResult, reference: Reference | None) -> AnswersJudgement:
    if reference is None:
        return AnswersJudgement("unmeasured", "no reference of this configuration lies on the node")
    return judged.against(reference.answers, reference.of, golden.said, reference.tolerance)


def _are_same_servers(smoke: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether every server is older than the test before; what is not known is not so."""
    try:
        passed = _taken(smoke) - _taken(before)
        ages = smoke["conditions"]["server_ages_s"]
        return bool(ages) and all(float(age) > passed.total_seconds() for age in ages)
    except (KeyError, TypeError, ValueError):
        return False


def _taken(smoke: Mapping[str, Any]) -> datetime:
    return timestamp.parse(smoke["taken_at"])
