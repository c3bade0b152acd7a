"""Which nodes send to which at the same time: waves of flows. Pure, and the same for the same plan.

In a wave a port sends to at most one other and receives from at most one, so that no flow is slow
for another one's sake. Up to ALL_PAIRS nodes on a rail every pair is measured, by the circle method
of tournaments; beyond, each node with DEGREE others drawn by the seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ALL_PAIRS = 64
"""Nodes whose pairs take 63 rounds, half an hour at 20 s and both ways."""
DEGREE = 4
FIRST_PORT = 18515
"""What perftest listens on by default; each rail has one of its own from there."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Flow:
    """Traffic of one rail, written by the client into the server's memory.

    `attempt`: 1, or more where it is measured again; none replaces another.
    """

    client: str
    server: str
    rail: int
    attempt: int = 1

    @property
    def port(self) -> int:
        """TCP port on which the server meets the client."""
        return FIRST_PORT + self.rail


def waves(rails: Mapping[int, Sequence[str]], seed: str) -> list[list[Flow]]:
    """Every flow of a fleet's rails (rail to nodes), both ways, rails side by side.

    Both directions of a pair go one after the other: at once they are another measurement.
    """
    found: list[list[Flow]] = []
    for rail, nodes in rails.items():
        number = 0
        for pairs in rounds(nodes, seed):
            for way in (pairs, [(server, client) for client, server in pairs]):
                if number == len(found):
                    found.append([])
                found[number] += [Flow(client, server, rail) for client, server in way]
                number += 1
    return found


def rounds(nodes: Sequence[str], seed: str) -> list[list[Pair]]:
    """Disjoint pairs, round by round: all of few nodes, DEGREE of each of many."""
    if len(nodes) <= ALL_PAIRS:
        return list(circle(nodes))
    taken: set[frozenset[str]] = set()
    found, salt = list[list[Pair]](), 0
    while len(found) < DEGREE:
        drawn = _shuffled(nodes, f"{seed}/{salt}")
        pairs = list(zip(drawn[::2], drawn[1::2], strict=False))
        salt += 1
        if taken.isdisjoint(map(frozenset, pairs)):
            taken.update(map(frozenset, pairs))
            found.append(pairs)
    return found


def circle(nodes: Sequence[str]) -> Iterator[list[Pair]]:
    """The rounds of a tournament: everybody meets everybody once; of an odd number one rests."""
    ring: list[str | None] = [*nodes, *([None] if len(nodes) % 2 else [])]
    half = len(ring) // 2
    for _ in range(len(ring) - 1):
        facing = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(one, other) for one, other in facing if one is not None and other is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]


def packed(flows: Iterable[Flow]) -> list[list[Flow]]:
    """Flows in as few waves as one look at each brings about."""
    found: list[tuple[list[Flow], set[tuple[str, str, int]]]] = []
    for flow in flows:
        ends = {("sends", flow.client, flow.rail), ("receives", flow.server, flow.rail)}
        wave = next((one for one in found if one[1].isdisjoint(ends)), None)
        if wave is None:
            found.append(wave := ([], set()))
        wave[0].append(flow)
        wave[1].update(ends)
    return [wave for wave, _ in found]


def _shuffled(nodes: Sequence[str], salt: str) -> list[str]:
    return sorted(nodes, key=lambda name: hashlib.sha256(f"{salt}/{name}".encode()).digest())
