"""Who is to blame for what is slow between nodes: group tests, round by round. Pure.

An element is a port: one rail of one node. A group test sends traffic between the ports of several
nodes on one rail; it passes where all of it was as fast as it should be. The method is that of
NVIDIA's cluster-readiness-engine (ADR-055 and ADR-056), on ports instead of nodes:

1. Screen groups in parallel: the nodes of each declared leaf, else of about the root of their
   number. What passes is cleared; one of each that passes are tested together.
2. Halve each group that fails, all of them in parallel. A port left alone is tested with one that
   was cleared, then with another one, so that no bad reference condemns many.
3. A port that fails both is tested on itself, the traffic turned round in its adapter: a failure is
   inside the node, a pass leaves optic, cable and the switch's port.
4. A leaf both of whose halves fail is tried by four of its ports with others elsewhere.
5. Where both halves pass, what is between them is repeated, and mixed from half of either, until a
   pair is left or nothing narrower fails. What passes when repeated was transient.

Assumed: a bad port fails every group it is in; a fault of one pair shows only where that pair, or a
group with both, is tested. Nothing is kept but results: the same plan and results ask for the same
tests, so that whoever is killed goes on. No result is no pass: a test that could not be made
narrows as a failed one does, and what it comes to is unmeasured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "unmeasured"]
Kind = Literal[
    "node", "port", "cable", "element", "leaf", "rail", "boundary", "pair", "transient",
    "unmeasured",
]  # fmt: skip
"""What is bad. port: inside the node (GPU, PCIe, adapter). cable: from the adapter to the leaf, or
the leaf's port. element: one of both. rail: nothing on it passes. boundary: only what goes between
two groups. unmeasured: nobody could tell."""
Group = tuple[str, ...]
Ports = Mapping[int, Mapping[str, str]]
"""Those to be judged: rail to node to its leaf, "" where none is declared."""
_SAMPLE = 4
"""Ports that speak for a leaf: so many bad cables at just these would be taken for it."""


@dataclass(frozen=True)
class GroupTest:
    """Nodes tested together on a rail, in the plan's order; one alone is tested on itself.

    `repeat`: above 0 where the same test is made again; none replaces another.
    """

    nodes: Group
    rail: int
    repeat: int = 0


@dataclass(frozen=True)
class Blame:
    """One thing that is bad: on which rails, which nodes.

    `others`: of a pair or boundary those on its other side, () where it is everybody else.
    """

    kind: Kind
    rails: tuple[int, ...]
    nodes: Group
    others: Group = ()
    leaf: str = ""


@dataclass(frozen=True)
class Conclusion:
    """What the results say, and the next round: tests that can all be made before any result.

    `open`: () where no further test would say more.
    """

    blames: tuple[Blame, ...]
    open: tuple[GroupTest, ...]


Answer = Callable[[GroupTest], Outcome | None]
"""The result of a test so far; None: it was not made."""


def conclusion(ports: Ports, answer: Answer) -> Conclusion:
    """Who is to blame by the results so far."""
    lanes = [_Lane(rail, leaves, answer) for rail, leaves in ports.items()]
    for lane in lanes:
        lane.search()
    wanted = dict.fromkeys(test for lane in lanes for test in lane.wanted)
    found = [blame for lane in lanes for blame in lane.blames]
    return Conclusion((*_whole_nodes(ports, found),), tuple(wanted))


def groups_of(leaves: Mapping[str, str]) -> list[Group]:
    """The groups that are screened: by leaf where every node has one, else of equal sizes."""
    nodes = tuple(leaves)
    if nodes and all(leaves.values()):
        named = dict.fromkeys(leaves.values())
        return [tuple(node for node in nodes if leaves[node] == leaf) for leaf in named]
    size = math.ceil(math.sqrt(len(nodes))) or 1
    count = max(1, min(math.ceil(len(nodes) / size), len(nodes) // 2))
    cuts = [number * len(nodes) // count for number in range(count + 1)]
    return [nodes[cuts[i] : cuts[i + 1]] for i in range(count)]


def _whole_nodes(ports: Ports, blames: Sequence[Blame]) -> Iterable[Blame]:
    """The same, with one blame where a node is bad on all of its rails."""
    kinds = ("port", "cable", "element", "unmeasured")
    single = [b for b in blames if b.kind in kinds and len(b.nodes) == 1]
    for node in dict.fromkeys(blame.nodes[0] for blame in single):
        own = tuple(rail for rail, leaves in ports.items() if node in leaves)
        of_node = [blame for blame in single if blame.nodes == (node,)]
        if len(own) > 1 and {blame.rails[0] for blame in of_node} == {*own}:
            silent = all(blame.kind == "unmeasured" for blame in of_node)
            yield Blame("unmeasured" if silent else "node", own, (node,))
        else:
            yield from of_node
    yield from (blame for blame in blames if blame not in single)


def _halves(group: Group) -> tuple[Group, Group]:
    middle = (len(group) + 1) // 2
    return group[:middle], group[middle:]


class _Lane:
    """The search on one rail. Wherever a result is wanting it stops, with the test in `wanted`."""

    def __init__(self, rail: int, leaves: Mapping[str, str], answer: Answer) -> None:
        self.rail, self.leaves, self.answer = rail, leaves, answer
        self.place = {node: number for number, node in enumerate(leaves)}
        self.groups = groups_of(leaves)
        self.good: list[str] = []
        self.wanted: list[GroupTest] = []
        self.blames: list[Blame] = []

    def ask(self, nodes: Sequence[str], repeat: int = 0) -> Outcome | None:
        test = GroupTest(tuple(sorted(nodes, key=self.place.__getitem__)), self.rail, repeat)
        found = self.answer(test)
        if found is None:
            self.wanted.append(test)
        return found

    def failing(self, groups: Sequence[Group]) -> list[Group] | None:
        """Those groups that do not pass; None while one of them is not known."""
        found = [self.ask(group) for group in groups]
        if None in found:
            return None
        return [g for g, outcome in zip(groups, found, strict=True) if outcome != "passed"]

    def blame(self, kind: Kind, nodes: Group, others: Group = ()) -> None:
        leaf = self.leaves[nodes[0]] if kind in ("leaf", "port", "cable", "element") else ""
        self.blames.append(Blame(kind, (self.rail,), nodes, others, leaf))

    def search(self) -> None:
        many = [group for group in self.groups if len(group) > 1]
        bad = self.failing(many)
        if bad is None or len(self.leaves) < 2:
            return
        passed = [group for group in many if group not in bad]
        self.good = [node for group in passed for node in group]
        parts = bad
        while not self.good and (parts := [h for p in parts for h in _halves(p) if len(h) > 1]):
            failed = self.failing(parts)
            if failed is None:
                return
            self.good = [node for part in parts if part not in failed for node in part]
            parts = [part for part in failed if len(part) > 2]
        if not self.good:
            self.blame("rail", tuple(self.leaves))
            return
        for group in self.groups:
            if group not in passed:
                self.narrow(group)
        if len(passed) > 1 and self.failing([self.firsts(passed)]):
            self.between(passed)

    def partners(self, node: str) -> tuple[str, str]:
        """Two that were cleared, other ones for other nodes; twice the same where there is one."""
        others = [each for each in self.good if each != node]
        at = self.place[node] % len(others)
        return others[at], others[(at + max(1, len(others) // 2)) % len(others)]

    def passes(self, group: Group) -> bool | None:
        """Whether a part of a group passes; one port alone, with a partner."""
        whole = group if len(group) > 1 else (*group, self.partners(group[0])[0])
        failed = self.failing([whole])
        return None if failed is None else not failed

    def narrow(self, group: Group) -> None:
        """Find what is bad in a group that does not pass."""
        if len(group) == 1:
            self.single(group[0])
            return
        halves = _halves(group)
        found = [self.passes(half) for half in halves]
        if None in found:
            return
        if not any(found) and group in self.groups and self.leaves[group[0]]:
            whole = self.whole_leaf(group)
            if whole:
                self.blame(whole, group)
            if whole != "":
                return
        if all(found):
            self.apart(*halves)
        for half, passes in zip(halves, found, strict=True):
            if not passes:
                self.narrow(half)

    def whole_leaf(self, group: Group) -> Literal["leaf", "unmeasured", ""] | None:
        """What a leaf comes to whose ports all fail; "" where one passes, None where unknown."""
        if not set(self.good) - set(group):
            return ""
        picks = dict.fromkeys(group[i * len(group) // _SAMPLE] for i in range(_SAMPLE))
        found = [self.ask((node, self.partners(node)[0])) for node in picks]
        if None in found:
            return None
        if "passed" in found:
            return ""
        return "leaf" if "failed" in found else "unmeasured"

    def single(self, node: str) -> None:
        """Tell a bad port from a bad pair and from what passed meanwhile."""
        first, second = self.partners(node)
        one = self.ask((node, first))
        if one is None or one == "passed":
            return
        other = self.ask((node, second))
        if other == "passed":
            again = self.ask((node, first), repeat=1)
            if again is not None:
                self.blame("transient" if again == "passed" else "pair", (node,), (first,))
        elif other is not None:
            if "failed" not in (one, other):
                self.blame("unmeasured", (node,))
                return
            inside = self.ask((node,))
            kinds: dict[Outcome, Kind] = {"failed": "port", "passed": "cable"}
            if inside is not None:
                self.blame(kinds.get(inside, "element"), (node,))

    def apart(self, a: Group, b: Group) -> None:
        """Two groups that pass, and did not together: repeat that, then look between them."""
        again = self.ask((*a, *b), repeat=1)
        if again == "passed":
            self.blame("transient", a, b)
        elif again is not None:
            self.split(a, b)

    def split(self, a: Group, b: Group) -> None:
        """Mix halves of either side, straight, then crossed, as long as just one of them fails."""
        if len(a) == len(b) == 1:
            self.two(a[0], b[0])
            return
        (a1, a2), (b1, b2) = _halves(a), _halves(b)
        straight = dict.fromkeys([(a1, b1), (a2 or a1, b2 or b1)])
        crossed = dict.fromkeys([(a1, b2 or b1), (a2 or a1, b1)])
        for mixes in ([*straight], [mix for mix in crossed if mix not in straight]):
            bad = self.failing([(*x, *y) for x, y in mixes])
            if bad is None:
                return
            if len(bad) == len(mixes) > 1:
                break
            if bad:
                for x, y in mixes:
                    if (*x, *y) in bad:
                        self.split(x, y)
                return
        self.blame("boundary", self.spoken_for(a), self.spoken_for(b))

    def two(self, one: str, other: str) -> None:
        """A pair that fails; of two groups' first ones, the next tell it from what joins those."""
        groups = [next(g for g in self.groups if node in g) for node in (one, other)]
        if groups[0] != groups[1] and all(len(group) > 1 for group in groups):
            bad = self.failing([(groups[0][1], groups[1][1])])
            if bad is None:
                return
            if bad:
                self.joined(groups[0], groups[1])
                return
        self.blame("pair", (one,), (other,))

    def joined(self, one: Group, other: Group) -> None:
        """What joins two groups is bad; a third tells whether it is what joins one to everybody."""
        third = next((node for node in self.good if node not in (*one, *other)), None)
        bad = self.failing([(g[0], third) for g in (one, other)]) if third else []
        if bad is not None:
            alone = [group for group in (one, other) if (group[0], third) in bad]
            self.blame("boundary", *([alone[0], ()] if len(alone) == 1 else [one, other]))

    def spoken_for(self, nodes: Group) -> Group:
        """The groups of nodes that are the first of theirs; else these nodes."""
        groups = [group for group in self.groups if group[0] in nodes]
        return tuple(node for g in groups for node in g) if len(groups) == len(nodes) else nodes

    def firsts(self, groups: Sequence[Group]) -> Group:
        return tuple(group[0] for group in groups)

    def between(self, groups: Sequence[Group]) -> None:
        """Groups that pass, and whose first ones do not together: between which of them it lies."""
        one, other = groups[: (len(groups) + 1) // 2], groups[(len(groups) + 1) // 2 :]
        sides = [side for side in (one, other) if len(side) > 1]
        bad = self.failing([self.firsts(side) for side in sides])
        if bad is None:
            return
        if not bad:
            self.apart(self.firsts(one), self.firsts(other))
        for side in sides:
            if self.firsts(side) in bad:
                self.between(side)
