"""When the standing of a proof is an event for the site. Pure.

Boots, restarts and a node that was taken out are planned work: for a moment nothing is proven, and
nobody relies on it. So an expired proof counts from the second look that finds it of replicas that
serve.
"""

from __future__ import annotations

from b200kit.node.proof.document import EXPIRED, Proof


def standing(then: Proof | None, now: Proof, reported: str) -> str:
    """The standing to report, empty where there is none. *reported*: the one reported last."""
    if now.standing == EXPIRED and not (_serves_unproven(now) and _serves_unproven(then)):
        return ""
    return "" if now.standing == reported else now.standing


def _serves_unproven(proof: Proof | None) -> bool:
    return proof is not None and proof.standing == EXPIRED and bool(proof.serving.replicas)
