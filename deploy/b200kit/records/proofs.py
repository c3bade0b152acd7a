"""Proofs that were seen: what is wrong with one now, and the highest sequence of each key.

A sequence grows for as long as the key that signs it lives, so that one below the highest seen of
that key is an old proof shown again. A re-imaged node has a new key, whose sequence starts at 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from b200kit.node.lib import documents
from b200kit.node.state.proof import MAY_BE_AHEAD_S, NodeProof, stamp
from b200kit.store.database import Store

LOG = "proof"


@dataclass(frozen=True)
class SeenProof:
    """The key that signed it, its sequence, and its digest."""

    key: str
    sequence: int
    sha256: str


def problem(proof: NodeProof, now: datetime) -> str:
    """Why a proof that its node signed proves nothing now; empty where it does."""
    elapsed = now.timestamp() - proof.issued_s
    if -elapsed > MAY_BE_AHEAD_S:
        return f"issued {-elapsed:.0f} s in the future: a clock is wrong, the node's or this one's"
    if not (worth := proof.validity()).holds:
        return f"the node itself calls it expired: {worth.why}"
    if proof.validity(elapsed).holds:
        return ""
    return f"expired {elapsed - worth.left_s:.0f} s ago, at {stamp(proof.issued_s + worth.left_s)}"


def replayed(store: Store, node: str, key: str, sequence: int, sha256: str) -> str:
    """Note that this proof was seen, or say why it is an old or a second one; "" where it is not.

    *key*: fingerprint of the one that signed it. Raises StoreError.
    """
    with store.writing():
        seen = [documents.decode(SeenProof, x.text) for x in store.read(LOG, node)]
        # The last is the highest: none below it is ever noted.
        last = next((one for one in reversed(seen) if one.key == key), SeenProof(key, -1, ""))
        if sequence < last.sequence:
            highest = f"{last.sequence} of {node} was seen before"
            return f"replayed: sequence {sequence}, but {highest}"
        if sequence == last.sequence and last.sha256 != sha256:
            return f"another proof of {node} with sequence {sequence} was seen before"
        if sequence > last.sequence:
            now = documents.unstructure(SeenProof(key, sequence, sha256))
            store.append(LOG, node, json.dumps(now, sort_keys=True))
    return ""
