"""What transfers come to: passes, too slow, no figure; and what the verdict says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any

import pytest

from b200kit.acceptance.network import pairs
from b200kit.acceptance.network.blame import GroupTest
from b200kit.acceptance.network.pairs import DEGREE, Flow, circle, packed, rounds, waves
from b200kit.acceptance.network.results import (
    FlowLine,
    NetworkPlan,
    PlannedNode,
    Results,
    flows_of,
    verdict,
)
from tests.subtests import in_subtests
from tests.unit.acceptance.network.ports import RAIL, port

RAILS = (RAIL.model_dump(),)
NAMES = [f"n{number:02d}" for number in range(8)]
PLAN = NetworkPlan(
    "network-1", "2026-11-27T22:00:00Z", 5.0, {n: PlannedNode(n, RAILS) for n in NAMES}
)
LINE = FlowLine("n00", "n01", 0, 1, "done", "", 390.0, 2.7, 1.0, "2026-11-27T22:00:00Z")


def measured(*changed: FlowLine, but: int = 0) -> Results:
    """All transfers of the plan, some of them changed, the last *but* so many left out."""
    results = Results(PLAN)
    for line in changed:
        results.take(line)
    flows = [flow for wave in PLAN.waves() for flow in wave]
    for number, flow in enumerate(flows[: len(flows) - but]):
        results.take(replace(LINE, **vars(flow), gbit=390 + number % 3 / 10))
    return results


@in_subtests(
    ("changes", "expected"),
    [
        ({}, "passed"),
        ({"gbit": 359.0}, "failed"),
        # Over the floor, and slower than all its peers.
        ({"gbit": 365.0}, "failed"),
        ({"gbit": 375.0}, "passed"),
        ({"latency_us": 6.0}, "failed"),
        ({"outcome": "failed"}, "failed"),
        ({"outcome": "hung"}, "failed"),
        ({"outcome": "machinery"}, "unmeasured"),
        ({"outcome": "missing"}, "unmeasured"),
        ({"gbit": None}, "unmeasured"),
        ({"latency_us": None}, "unmeasured"),
    ],
)
def test_a_transfer_is_held_to_its_rate_and_its_peers(
    changes: dict[str, Any], expected: str
) -> None:
    line = replace(LINE, **changes)
    assert measured(line).passes(line) == expected


def test_a_port_that_sends_to_itself_is_no_peer_of_the_others() -> None:
    own = replace(LINE, server="n00", gbit=361.0, latency_us=9.0)
    assert measured().passes(own) == "passed"
    assert measured().passes(replace(own, gbit=300.0)) == "failed"


def test_a_transfer_is_compared_with_the_plans_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "ALL_PAIRS", 4)
    results = measured()
    usual = results.usual(0, "gbit")
    for one, other in permutations(NAMES, 2):
        results.take(replace(LINE, client=one, server=other, gbit=100.0))
    assert len(results.lines) > len(results.planned)
    assert results.usual(0, "gbit") == usual


@in_subtests(("count", "flows"), [(1, 1), (2, 2), (3, 3), (4, 8), (16, 32)])
def test_a_group_reaches_the_next_and_the_one_half_way_round(count: int, flows: int) -> None:
    found = flows_of(GroupTest(tuple(map(str, range(count))), 0, repeat=1))
    assert len({*found}) == len(found) == flows
    assert {flow.attempt for flow in found} == {2}
    for node in map(str, range(count)):
        assert any(flow.client == node for flow in found)
        assert any(flow.server == node for flow in found)


def test_a_group_has_no_result_while_a_transfer_of_it_was_not_made() -> None:
    group = GroupTest(tuple(NAMES), 0)
    assert Results(PLAN).answer(group) is None
    assert measured(but=20).answer(group) is None
    assert measured().answer(group) == "passed"
    assert measured().answer(replace(group, repeat=1)) is None
    # One that is known to fail is enough, in no ring of the group though it is.
    slow = measured(replace(LINE, client="n00", server="n03", gbit=100.0))
    assert slow.answer(group) == "failed"
    silent = measured(replace(LINE, client="n00", server="n01", outcome="machinery"))
    assert silent.answer(group) == "unmeasured"


def test_what_a_port_sends_itself_says_nothing_of_its_groups() -> None:
    own = replace(LINE, server="n00", gbit=100.0)
    assert measured(own).answer(GroupTest(tuple(NAMES), 0)) == "passed"
    assert measured(own).answer(GroupTest(("n00",), 0)) == "failed"
    assert measured(replace(LINE, gbit=100.0)).answer(GroupTest(("n00",), 0)) is None


def test_the_first_line_of_a_transfer_stays() -> None:
    results = measured(replace(LINE, outcome="failed"))
    results.take(LINE)
    assert results.lines[Flow("n00", "n01", 0)].outcome == "failed"
    assert results.missing([Flow("n00", "n01", 0), Flow("n00", "n01", 0, 2)]) == [
        Flow("n00", "n01", 0, 2)
    ]


def checks(results: Results, *, facts: object = None) -> dict[str, str]:
    """Check to status, the worst of each."""
    sound = {"ports": [port()]}
    read = {
        name: ({"ports": [port("guid", name)]},) * 2 if facts is None else (facts, sound)
        for name in NAMES
    }
    order = ["pass", "unmeasured", "fail"]
    found: dict[str, str] = {}
    for finding in verdict(results, {n: (a, b) for n, (a, b) in read.items()}).findings:
        was = found.get(finding.check, "pass")
        found[finding.check] = max(was, finding.status.value, key=order.index)
    return found


def test_verdict_of_a_sound_network() -> None:
    assert checks(measured()) == dict.fromkeys(
        ["network.port", "network.errors", "network.traffic", "network.marking"], "pass"
    )


@in_subtests(
    ("line", "but", "check", "status"),
    [
        (replace(LINE, marked=0.2), 0, "network.marking", "fail"),
        (replace(LINE, marked=None), 0, "network.marking", "unmeasured"),
        (replace(LINE, gbit=100.0), 0, "network.traffic", "fail"),
        (replace(LINE, outcome="missing", gbit=None), 0, "network.traffic", "unmeasured"),
        (LINE, 1, "network.traffic", "unmeasured"),
        (replace(LINE, gbit=100.0), 0, "network.blame", "unmeasured"),
    ],
)
def test_what_is_not_there_is_never_well(line: FlowLine, but: int, check: str, status: str) -> None:
    assert checks(measured(line, but=but))[check] == status


def test_facts_that_are_no_facts_are_unmeasured() -> None:
    assert checks(measured(), facts=[])["network.port"] == "unmeasured"


def names(count: int) -> list[str]:
    return [f"n{number:03d}" for number in range(count)]


@in_subtests("count", [2, 3, 4, 7, 8, 64])
def test_in_a_tournament_everybody_meets_everybody_once(count: int) -> None:
    played = list(circle(names(count)))
    assert len(played) == count - (count % 2 == 0)
    met = [frozenset(pair) for wave in played for pair in wave]
    assert sorted(map(sorted, met)) == sorted(map(list, combinations(names(count), 2)))
    for wave in played:
        assert max(Counter(node for pair in wave for node in pair).values()) == 1


def test_many_nodes_meet_four_others_each_by_the_seed() -> None:
    drawn = rounds(names(200), "seed")
    assert drawn == rounds(names(200), "seed") != rounds(names(200), "other")
    pairs = {frozenset(pair) for each in drawn for pair in each}
    assert Counter(node for pair in pairs for node in pair) == dict.fromkeys(names(200), DEGREE)


@in_subtests("count", [5, 80])
def test_each_pair_goes_both_ways_on_each_rail_one_after_the_other(count: int) -> None:
    rails = {0: names(count), 3: names(count)[:4]}
    found = waves(rails, "seed")
    flows = [flow for wave in found for flow in wave]
    assert len({*flows}) == len(flows)
    assert {*flows} == {Flow(f.server, f.client, f.rail) for f in flows}
    for wave in found:
        ends = [(node, flow.rail) for flow in wave for node in (flow.client, flow.server)]
        assert len({*ends}) == len(ends)
        ports = [(flow.server, flow.port) for flow in wave]
        assert len({*ports}) == len(ports)


def test_packed_flows_share_neither_a_sender_nor_a_receiver() -> None:
    ring = [Flow(a, b, 0) for a, b in zip(names(9), [*names(9)[1:], "n000"], strict=True)]
    star = [Flow("n000", node, 0) for node in names(9)[2:5]]
    sink = [Flow(node, "n008", 1) for node in names(9)[:3]]
    found = packed([*ring, *star, *sink])
    assert {flow for wave in found for flow in wave} == {*ring, *star, *sink}
    assert len(found) == 4
    for wave in found:
        for end in ("client", "server"):
            assert max(Counter((getattr(f, end), f.rail) for f in wave).values()) == 1
