"""The log of every action on every node: a chain of lines (b200kit/run/chain.py). Pure.

Only the end can be cut off unseen by the chain itself: each node's transaction therefore keeps the
digests of its own lines, and the node a copy of its newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from b200kit.run import chain

SCHEMA = "b200kit/audit/1"


def verify(content: bytes, known: Mapping[str, list[str]]) -> list[str]:
    """All that is wrong: with the chain, and with what the transactions of *known* nodes say of it.

    *known* has the digests that each node's transaction keeps, oldest first.
    """
    log = chain.parse(content)
    there = {str(entry["digest"]): entry for entry in log.entries}
    wrong = [*log.torn, *log.damage]
    for node, digests in sorted(known.items()):
        missing = [digest for digest in digests if digest not in there]
        if missing:
            wrong.append(
                f"{node}: {len(missing)} of the {len(digests)} actions of its transaction are not "
                f"in the log (the first is {missing[0][:10]}): its end was cut off"
            )
        wrong += [
            f"{node}: action {digest[:10]} of its transaction is about {there[digest].get('node')}"
            for digest in digests
            if digest in there and there[digest].get("node") != node
        ]
    return wrong


def describe(entry: Mapping[str, Any]) -> str:
    """An action on one line: when, who, on which node, what, from where to where."""
    step = entry.get("level") or entry.get("step") or ""
    what = f": {entry['what']}" if entry.get("what") else ""
    return (
        f"{entry.get('at')}  {entry.get('node')}  {entry.get('who')}  {entry.get('kind')} {step}  "
        f"{entry.get('before')} -> {entry.get('after')}{what}"
    )
