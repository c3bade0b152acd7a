"""Who is to blame: faults of a simulated fleet are named, nobody else is, in few tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from b200kit.acceptance.network.blame import (
    Blame,
    Conclusion,
    GroupTest,
    Outcome,
    Ports,
    conclusion,
    groups_of,
)
from tests.subtests import in_subtests

Port = tuple[str, int]


def names(count: int) -> list[str]:
    return [f"n{number:04d}" for number in range(count)]


def plan_of(nodes: int, rails: int = 1, leaf_of: int = 0) -> Ports:
    """Nodes on rails; `leaf_of` nodes a leaf, each rail with its own; 0: none declared."""
    return {
        rail: {
            name: f"r{rail}-l{number // leaf_of}" if leaf_of else ""
            for number, name in enumerate(names(nodes))
        }
        for rail in range(rails)
    }


def bound(plan: Ports, faults: int) -> int:
    """Tests that the method takes for so many faults at single ports, leaves counting as one.

    G + L + d (log2(N / d) + 3): every group once, one test between them a rail, and for each of d
    faults among N ports the halvings that tell it from all others (what generalised binary
    splitting takes, Hwang 1972), its two partners and the test on itself.
    """
    ports = sum(map(len, plan.values()))
    screens = sum(len(groups_of(leaves)) + 1 for leaves in plan.values())
    each = math.log2(ports / faults) + 3 if faults else 0
    return screens + math.ceil(faults * each)


@dataclass
class Fleet:
    """What is really wrong; answers tests as traffic would."""

    plan: Ports
    inside: set[Port] = field(default_factory=set)
    cables: set[Port] = field(default_factory=set)
    silent: set[Port] = field(default_factory=set)
    leaves: set[str] = field(default_factory=set)
    cut: Callable[[str, str, int], bool] | None = None
    once: set[GroupTest] = field(default_factory=set)
    made: list[GroupTest] = field(default_factory=list)
    rounds: int = 0

    def test(self, test: GroupTest) -> Outcome:
        ports = {(node, test.rail) for node in test.nodes}
        alone = len(ports) == 1
        if ports & self.silent:
            return "unmeasured"
        behind = {self.plan[test.rail][node] for node in test.nodes}
        pairs = ((a, b) for a in test.nodes for b in test.nodes if self.cut and a != b)
        bad = (
            ports & self.inside
            or (not alone and (ports & self.cables or behind & self.leaves))
            or test in self.once
            or any(self.cut and self.cut(a, b, test.rail) for a, b in pairs)
        )
        return "failed" if bad else "passed"

    def judged(self, results: dict[GroupTest, Outcome] | None = None) -> Conclusion:
        results = {} if results is None else results
        while tests := conclusion(self.plan, results.get).open:
            assert not results.keys() & set(tests)
            self.made += tests
            self.rounds += 1
            results |= {test: self.test(test) for test in tests}
        return conclusion(self.plan, results.get)


def named(found: Conclusion) -> set[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    return {(blame.kind, blame.rails, blame.nodes) for blame in found.blames}


def test_a_thousand_nodes_with_slow_gpus_bad_cables_and_a_bad_leaf() -> None:
    plan = plan_of(1000, rails=8, leaf_of=32)
    gpus, cables = {("n0007", 0), ("n0008", 0), ("n0777", 5)}, {("n0031", 7), ("n0500", 2)}
    fleet = Fleet(plan, inside=gpus, cables=cables, leaves={"r3-l9"})
    found = fleet.judged()
    behind = tuple(names(1000)[288:320])
    assert named(found) == {
        *(("port", (rail,), (node,)) for node, rail in gpus),
        *(("cable", (rail,), (node,)) for node, rail in cables),
        ("leaf", (3,), behind),
    }
    assert next(blame.leaf for blame in found.blames if blame.kind == "leaf") == "r3-l9"
    assert len(fleet.made) <= bound(plan, 6) < 2 * bound(plan, 6)
    # Rails are side by side: a wave has the same nodes on all of them.
    assert len({(test.nodes, test.repeat) for test in fleet.made}) <= 2 * 107
    assert fleet.rounds <= 9


@in_subtests(("bad", "most"), [(0, 28), (1, 30), (3, 60)])
def test_232_nodes_whose_topology_nobody_declared(bad: int, most: int) -> None:
    nodes = {("n0003", 0), ("n0100", 0), ("n0231", 0)}
    fleet = Fleet(plan_of(232), cables=set(sorted(nodes)[:bad]))
    assert {node for blame in fleet.judged().blames for node in blame.nodes} == {
        node for node, _ in fleet.cables
    }
    assert len(fleet.made) <= most


def test_a_node_that_is_bad_on_all_its_rails_is_one_fault() -> None:
    plan = plan_of(64, rails=8, leaf_of=16)
    fleet = Fleet(plan, inside={("n0020", rail) for rail in range(8)})
    assert fleet.judged().blames == (Blame("node", tuple(range(8)), ("n0020",)),)
    assert len({test.nodes for test in fleet.made}) <= 2 * bound(plan_of(64, leaf_of=16), 1)


@in_subtests(
    ("fleet", "expected"),
    [
        (
            Fleet(plan_of(16), cut=lambda a, b, _: {a, b} == {"n0001", "n0002"}),
            {("pair", (0,), ("n0001",))},
        ),
        # Leaves 0 and 1 do not reach leaves 2 and 3: the spine between them.
        (
            Fleet(plan_of(64, leaf_of=16), cut=lambda a, b, _: (a < "n0032") != (b < "n0032")),
            {("boundary", (0,), tuple(names(32)))},
        ),
        # One leaf reaches no other: its way up.
        (
            Fleet(plan_of(64, leaf_of=16), cut=lambda a, b, _: (a < "n0016") != (b < "n0016")),
            {("boundary", (0,), tuple(names(16)))},
        ),
        (
            Fleet(
                plan_of(64, leaf_of=16),
                cut=lambda a, b, _: {int(a[1:]) // 16, int(b[1:]) // 16} == {0, 3},
            ),
            {("boundary", (0,), tuple(names(16)))},
        ),
        (
            Fleet(plan_of(64, leaf_of=16), cut=lambda a, b, _: {a, b} == {"n0000", "n0032"}),
            {("pair", (0,), ("n0000",))},
        ),
        # Inside a leaf: what its two halves say to each other.
        (
            Fleet(
                plan_of(32, leaf_of=16),
                cut=lambda a, b, _: max(a, b) < "n0016" and (a < "n0008") != (b < "n0008"),
            ),
            {("boundary", (0,), tuple(names(8)))},
        ),
        (
            Fleet(plan_of(16), once={GroupTest(tuple(names(4)), 0)}),
            {("transient", (0,), ("n0000", "n0001"))},
        ),
        (Fleet(plan_of(16), silent={("n0005", 0)}), {("unmeasured", (0,), ("n0005",))}),
        (
            Fleet(plan_of(16, rails=2), silent={("n0005", 0), ("n0005", 1)}),
            {("unmeasured", (0, 1), ("n0005",))},
        ),
        (Fleet(plan_of(2), cables={("n0001", 0)}), {("rail", (0,), ("n0000", "n0001"))}),
        (
            Fleet(plan_of(8), cables={(name, 0) for name in names(8)}),
            {("rail", (0,), tuple(names(8)))},
        ),
        # None of the two groups passes; a half of one does.
        (
            Fleet(plan_of(4), cables={("n0000", 0)}),
            {("cable", (0,), ("n0000",))},
        ),
        (
            Fleet(plan_of(9, leaf_of=8), cables={("n0008", 0)}),
            {("cable", (0,), ("n0008",))},
        ),
        # Half of a leaf's ports are not the leaf.
        (
            Fleet(plan_of(32, leaf_of=8), cables={(n, 0) for n in ("n0000", "n0004", "n0006")}),
            {("cable", (0,), (n,)) for n in ("n0000", "n0004", "n0006")},
        ),
        (
            Fleet(plan_of(32, leaf_of=8), silent={(n, 0) for n in names(8)}),
            {("unmeasured", (0,), tuple(names(8)))},
        ),
        (Fleet(plan_of(1)), set()),
        # n0005 is who n0002 is tried with first: together they fail, or did once.
        (
            Fleet(plan_of(9), {("n0000", 0)}, cut=lambda a, b, _: {a, b} == {"n0002", "n0005"}),
            {("port", (0,), ("n0000",)), ("pair", (0,), ("n0002",))},
        ),
        (
            Fleet(plan_of(9), {("n0000", 0)}, once={GroupTest(("n0002", "n0005"), 0)}),
            {("port", (0,), ("n0000",)), ("transient", (0,), ("n0002",))},
        ),
    ],
)
def test_each_kind_of_fault_is_told_from_the_others(
    fleet: Fleet, expected: set[tuple[str, tuple[int, ...], tuple[str, ...]]]
) -> None:
    assert named(fleet.judged()) == expected


@in_subtests("leaf", [0, 1, 3])
def test_a_leaf_that_reaches_nobody_is_told_from_two_that_do_not_reach_each_other(
    leaf: int,
) -> None:
    inside = {*names(64)[leaf * 16 : leaf * 16 + 16]}
    fleet = Fleet(plan_of(64, leaf_of=16), cut=lambda a, b, _: (a in inside) != (b in inside))
    assert fleet.judged().blames == (Blame("boundary", (0,), tuple(sorted(inside))),)


def test_a_bad_reference_condemns_nobody() -> None:
    # n0005 and n0009 do not get through to each other and to nobody else of theirs.
    fleet = Fleet(
        plan_of(16), cables={("n0000", 0)}, cut=lambda a, b, _: {a, b} == {"n0001", "n0004"}
    )
    kinds = named(fleet.judged())
    assert ("cable", (0,), ("n0000",)) in kinds
    assert not any(kind in ("cable", "port", "node") for kind, _, who in kinds if who != ("n0000",))


ports = st.tuples(st.sampled_from(names(60)), st.integers(0, 2))


@given(
    st.sets(ports, max_size=4),
    st.sets(ports, max_size=3),
    st.sets(ports, max_size=2),
    st.sampled_from([0, 12]),
    st.integers(0, 6),
)
def test_random_faults_are_named_and_nobody_else_whoever_was_killed(
    inside: set[Port], cables: set[Port], silent: set[Port], leaf_of: int, killed: int
) -> None:
    plan = plan_of(60, rails=3, leaf_of=leaf_of)
    fleet = Fleet(plan, inside=inside, cables=cables - inside, silent=silent)
    whole: dict[GroupTest, Outcome] = {}
    found = fleet.judged(whole)
    bad = {(node, rail) for blame in found.blames for node in blame.nodes for rail in blame.rails}
    assert bad == inside | cables | silent
    lost = {b.nodes[0] for b in found.blames if b.kind == "unmeasured"}
    assert {node for node, _ in silent} >= lost
    assert len(fleet.made) <= 2 * bound(plan, len(bad))
    # Any part of the results leads to the same tests and the same conclusion.
    part = dict([*whole.items()][:: killed + 1])
    again = Fleet(plan, inside=inside, cables=cables - inside, silent=silent)
    assert again.judged(dict(part)) == found
    assert set(again.made) | part.keys() == whole.keys()


@in_subtests(("nodes", "sizes"), [(1, {1}), (2, {2}), (3, {3}), (5, {2, 3}), (232, {15, 16})])
def test_groups_without_a_topology_have_about_the_root_of_their_number(
    nodes: int, sizes: set[int]
) -> None:
    groups = groups_of(dict.fromkeys(names(nodes), ""))
    assert {*map(len, groups)} <= sizes
    assert [node for group in groups for node in group] == names(nodes)
