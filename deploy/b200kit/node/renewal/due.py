"""Which evidence of a proof is to be measured again now, and which only others can renew. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from b200kit.node.state.proof import PASS, Proof

MEASURED = ("latency", "answers")
"""What one smoke test leaves. Bandwidth needs the GPUs for itself."""


@dataclass(frozen=True)
class Due:
    """*kinds*: those to renew; *why*: why they are due, or why nothing is to be measured."""

    kinds: tuple[str, ...]
    why: str


def due(proof: Proof | None, boot_id: str, boot_s: float, when_left: float) -> Due:
    """What is due of a proof at a moment of a boot, in seconds since that began.

    *when_left*: the share of its time to live below which evidence is due. What failed, or holds
    for another configuration, is no matter of age: the controller knows what it is compared with.
    """
    if proof is None:
        return Due((), "there is no proof that is understood")
    if proof.boot_id != boot_id:
        return Due((), "no proof was issued since the boot")
    at_s = proof.issued_s + max(0.0, boot_s - proof.boot_s)
    asked = [one for one in proof.required if one.kind in MEASURED]
    for one in asked:
        if one.result != PASS:
            return Due((), f"{one.kind}: {one.result}: {one.why}: b200 deploy measures that again")
    late = [one for one in asked if one.left_s(at_s) < when_left * one.ttl_s]
    left = "; ".join(
        f"{one.kind}: {one.left_s(at_s):.0f} of {one.ttl_s:.0f} s are left" for one in late or asked
    )
    return Due(tuple(one.kind for one in late), left or "neither latency nor answers are required")
