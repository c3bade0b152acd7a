"""Who is taken out of service again and again: by node and by part, from the transactions. Pure.

Few nodes cause most exclusions, and such a node passes every check while it is idle (of 63 nodes of
8 B200 three caused half: arXiv 2605.09370). So exclusions are counted, not faults; changes that a
person planned are none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from b200kit.reprovision.ledger_line import LedgerLine, OpenLine


@dataclass(frozen=True)
class Exclusions:
    """How often what was taken out: a node, or a part of it, which its serial number names.

    `first`, `last`: when. `why`: causes with their number, the most frequent first.
    """

    node: str
    part: str
    times: int
    first: str
    last: str
    why: Mapping[str, int]


def counted(lines: Iterable[LedgerLine]) -> list[Exclusions]:
    """Every node and part that was taken out, the most frequent first."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        if not isinstance(line, OpenLine) or line.change:
            continue
        found[line.node, ""].append((line.at, line.cause or line.why))
        parts = {one.part: one.check for one in line.findings if one.blocks and one.part}
        for part, check in parts.items():
            found[line.node, part].append((line.at, check))
    every = [
        Exclusions(
            node, part, len(times), min(times)[0], max(times)[0],
            dict(Counter(cause for _, cause in times).most_common()),
        )
        for (node, part), times in found.items()
    ]  # fmt: skip
    return sorted(every, key=lambda one: (-one.times, one.node, one.part))
