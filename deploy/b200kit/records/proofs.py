"""Proofs that were seen: what is wrong with one now, and the highest sequence of each key.

A sequence grows for as long as the key that signs it lives, so that one below the highest seen of
that key is an old proof shown again. A node with a new image has a new key, and begins anew. They
are stored beside the records, one file a node.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

from b200kit.node.lib import timestamp
from b200kit.node.proof.document import EXPIRED, Proof
from b200kit.run import jsonl

FOLDER = "proofs"
CLOCKS_MAY_DIFFER_S = 5.0
"""Seconds by which a node's clock may be ahead of this one."""


def problem(proof: Proof, now: datetime) -> str:
    """Why a proof that its node signed proves nothing now; empty where it does."""
    ahead = proof.now.wall_s - now.timestamp()
    if ahead > CLOCKS_MAY_DIFFER_S:
        return f"issued {ahead:.0f} s in the future: a clock is wrong, the node's or this one's"
    if proof.standing == EXPIRED:
        return f"the node itself calls it expired: {proof.why}"
    past_s = (now - timestamp.parse(proof.valid_until)).total_seconds()
    return f"expired {past_s:.0f} s ago, at {proof.valid_until}" if past_s >= 0 else ""


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
