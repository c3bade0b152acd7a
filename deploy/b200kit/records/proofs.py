"""Proofs that were seen: what is wrong with one now, and the highest sequence of each key.

A sequence grows for as long as the key that signs it lives, so that one below the highest seen of
that key is an old proof shown again. A node with a new image has a new key, and begins anew. They
are stored beside the records, one file a node.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from b200kit.node.state.proof import MAY_BE_AHEAD_S, Proof, stamp
from b200kit.run import jsonl

FOLDER = "proofs"


def problem(proof: Proof, now: datetime) -> str:
    """Why a proof that its node signed proves nothing now; empty where it does."""
    elapsed = now.timestamp() - proof.issued_s
    if -elapsed > MAY_BE_AHEAD_S:
        return f"issued {-elapsed:.0f} s in the future: a clock is wrong, the node's or this one's"
    if not (worth := proof.validity()).holds:
        return f"the node itself calls it expired: {worth.why}"
    if proof.validity(elapsed).holds:
        return ""
    return f"expired {elapsed - worth.left_s:.0f} s ago, at {stamp(proof.issued_s + worth.left_s)}"


def replayed(folder: Path, node: str, key: str, sequence: int, sha256: str) -> str:
    """Note that this proof was seen, or say why it is an old or a second one; "" where it is not.

    *key*: fingerprint of the one that signed it. Raises OSError where that cannot be read or
    written.
    """
    found: list[str] = []

    def line(path: Path) -> str | None:
        # The last is the highest: none below it is ever noted.
        known = [one for _, one in jsonl.lines(jsonl.read(path)) if one and one.get("key") == key]
        last = known[-1] if known else {}
        highest = int(last.get("sequence", -1))
        if sequence < highest:
            found.append(f"replayed: sequence {sequence}, but {highest} of {node} was seen before")
        elif sequence == highest and last.get("sha256") != sha256:
            found.append(f"another proof of {node} with sequence {sequence} was seen before")
        elif sequence > highest:
            return json.dumps({"key": key, "sequence": sequence, "sha256": sha256}) + "\n"
        return None

    jsonl.append(jsonl.path_of(folder / FOLDER, node), line)
    return found[0] if found else ""
