"""How much of a whole node's load a node may have, by what it has proven. Pure.

A proof that has run out weighs the node down at once, and takes it out a while later; without a
proof of this boot it gets nothing. That is what the node says of itself: the fleet's endpoint keeps
its floor (templates/haproxy).
"""

from __future__ import annotations

from b200kit.node.lib.boot_clock import Moment
from b200kit.node.proof.document import Consequence, Proof

WHOLE = 100


def percent(proof: Proof | None, now: Moment, given: int, consequence: Consequence | None) -> int:
    """Percentage of a whole node's load, 0 to 100.

    *given*: what it was given when it came back into service; *consequence*: None where this node
    issues no proofs.
    """
    if consequence is None:
        return given
    if proof is None or proof.boot_id != now.boot_id:
        return 0
    unproven_s = proof.unproven_s(max(0.0, now.seconds - proof.boot_s))
    if not unproven_s and proof.left_s:
        return given
    if unproven_s >= consequence.out_after_s:
        return 0
    # HAProxy takes 0 % for a server that is drained, so what is left is never rounded to that.
    return max(1, given * consequence.percent // WHOLE) if consequence.percent else 0
