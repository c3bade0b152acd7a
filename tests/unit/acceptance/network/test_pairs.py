"""Waves: everybody meets whom they should, and nobody is in two places at once."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from b200kit.acceptance.network.pairs import DEGREE, Flow, circle, packed, rounds, waves
from tests.subtests import in_subtests


def names(count: int) -> list[str]:
    return [f"n{number:03d}" for number in range(count)]


@in_subtests("count", [2, 3, 4, 7, 8, 64])
def test_in_a_tournament_everybody_meets_everybody_once(count: int) -> None:
    played = list(circle(names(count)))
    assert len(played) == count - (count % 2 == 0)
    met = [frozenset(pair) for pairs in played for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(list, combinations(names(count), 2)))
    for pairs in played:
        assert max(Counter(node for pair in pairs for node in pair).values()) == 1


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
