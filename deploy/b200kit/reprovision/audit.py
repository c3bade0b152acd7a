"""The log of every action on every node: a chain of lines (b200kit/run/chain.py). Pure.

Only the end can be cut off unseen by the chain itself: each node's transaction therefore keeps the
digests of its own lines, so that each knows what the other must have, and the node a copy of its
newest (copy_comparison.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from b200kit.reprovision.ledger_line import AuditLine, action_of
from b200kit.run import chain
from b200kit.run.places import safe_name


def verify(content: bytes, known: Mapping[str, list[str]]) -> list[str]:
    """All that is wrong: with the chain, and between it and the nodes' transactions, both ways.

    *known* has the digests that each node's transaction keeps, oldest first, by its file's name.
    """
    log = chain.parse(action_of, content)
    there = {entry.digest: entry for entry in log.entries}
    wrong = [*log.torn, *log.damage]
    for node, digests in sorted(known.items()):
        missing = [digest for digest in digests if digest not in there]
        if missing:
            wrong.append(
                f"{node}: {len(missing)} of the {len(digests)} actions of its transaction are not "
                f"in the log (the first is {missing[0][:10]}): its end was cut off"
            )
        wrong += [
            f"{node}: action {digest[:10]} of its transaction is about {there[digest].node}"
            for digest in digests
            if digest in there and safe_name(there[digest].node) != node
        ]
    return [*wrong, *_without_a_line(log.entries, known)]


def _without_a_line(entries: Sequence[AuditLine], known: Mapping[str, list[str]]) -> Iterator[str]:
    """Actions that only the log has, by node."""
    by_node: dict[str, list[str]] = {}
    for entry in entries:
        by_node.setdefault(safe_name(entry.node), []).append(entry.digest)
    for node, digests in sorted(by_node.items()):
        there = set(known.get(node, ()))
        missing = [digest for digest in digests if digest not in there]
        if node not in known:
            yield f"{node}: its file is gone; the log has {len(digests)} actions on it"
        elif missing:
            yield (
                f"{node}: {len(missing)} of the log's {len(digests)} actions on it are not in its "
                f"file (the first is {missing[0][:10]}): lines were taken away, or a killed "
                "controller did not write the last one, which deploy/reprovision.py then takes up"
            )
