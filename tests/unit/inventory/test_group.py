"""Nodes that serve as one: who has which rank, and what of a group is refused."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.inventory import group as groups
from b200kit.inventory.keys import fleet
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.node.facts import nft_rules
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

GROUP: dict[str, Any] = {
    "name": "a",
    "members": {"n02": "10.1.0.2", "n01": "10.1.0.1", "n03": "10.1.0.3"},
    "head": "n02",
    "interface": "ens1f0np0",
}


def parsed(**changes: Any) -> NodeSpec | list[Problem]:
    """A member's spec with *changes* of its group, or what is wrong with it."""
    keys = {k: changes.pop(k) for k in ("engine", "replicas", "gateway_port") if k in changes}
    plain = {"replicas": 1, "tensor_parallel": 8, "group": GROUP | changes}
    return parse(data(**(plain | keys)), CATALOGUE)


def spec(**changes: Any) -> NodeSpec:
    """A sound member."""
    found = parsed(**changes)
    assert isinstance(found, NodeSpec), found
    return found


def refused(**changes: Any) -> str:
    """The one problem of a group with *changes*."""
    found = parsed(**changes)
    assert isinstance(found, list)
    [problem] = found
    return f"{problem.key}: {problem.message}"


def test_head_is_first_and_the_others_follow_by_name() -> None:
    group = spec().group
    ranks = {name: groups.part(group, name) for name in ("n01", "n02", "n03")}
    assert [part.node_rank if part else None for part in ranks.values()] == [1, 0, 2]
    head, follower = ranks["n02"], ranks["n03"]
    assert head
    assert follower
    assert (head.headless, follower.headless) == (False, True)
    assert {head.master_addr, follower.master_addr} == {"10.1.0.2"}
    assert follower.address == "10.1.0.3"
    assert set(follower.peers) == {"10.1.0.1", "10.1.0.2"}


def test_node_without_a_group_or_outside_of_it_has_no_part() -> None:
    assert groups.part(None, "n01") is None
    assert groups.part(spec().group, "n99") is None
    assert groups.headless(spec(), "n99") is False


def test_with_data_every_node_answers_requests() -> None:
    group = spec(join="data").group
    members = [groups.part(group, name) for name in ("n01", "n02", "n03")]
    assert [member.headless for member in members if member] == [False] * 3


@in_subtests(
    "changes",
    [
        {"members": {"n02": "10.1.0.2"}},
        {"head": "n09"},
        {"members": {"n01": "127.0.0.1", "n02": "10.1.0.2"}},
        {"port": 8000},
        {"replicas": 2},
        {"members": {"n01": "no", "n02": "10.1.0.2"}},
        {"join": "ring"},
        {"hed": "n01"},
    ],
)
def test_group_is_refused_in_one_line(changes: dict[str, Any]) -> None:
    found = parsed(**changes)
    assert isinstance(found, list)
    assert_message(*[f"{p.key}: {p.message}" for p in found])


def test_engine_that_cannot_be_joined_says_so() -> None:
    trtllm = data()["engine"] | {"name": "trtllm", "version": "1.2.1"}
    assert_message(refused(engine=trtllm))
    sglang = data()["engine"] | {"name": "sglang", "version": "0.5.23"}
    assert_message(refused(engine=sglang, join="data"))


def test_members_of_a_sound_group_agree() -> None:
    specs = {name: spec() for name in ("n01", "n02", "n03")}
    assert [problem for name in specs for problem in groups.between(specs, name)] == []


@pytest.mark.parametrize(
    ("changes", "host", "key"),
    [
        ({"engine": data()["engine"] | {"version": "0.33.0"}}, "n01", "engine"),
        ({"join": "tensor"}, "n01", "group"),
    ],
)
def test_member_that_differs_from_its_head_is_named(
    changes: dict[str, Any], host: str, key: str
) -> None:
    specs = {name: spec() for name in ("n01", "n02", "n03")} | {host: spec(**changes)}
    assert [problem.key for problem in groups.between(specs, host)] == [key]


def test_member_that_is_not_in_the_inventory_is_named() -> None:
    specs = {name: spec() for name in ("n01", "n02")}
    [problem] = groups.between(specs, "n01")
    assert_message(f"{problem.key}: {problem.message}")


def test_node_with_a_group_of_others_is_refused() -> None:
    specs = {name: spec() for name in ("n01", "n02", "n03", "n04")}
    [problem] = groups.between(specs, "n04")
    assert_message(problem.message)


def test_member_with_another_group_is_named() -> None:
    specs = {name: spec() for name in ("n01", "n02")} | {"n03": spec(name="b")}
    assert_message(*[p.message for p in groups.between(specs, "n01")])


def test_firewall_opens_to_the_other_members_alone() -> None:
    lines = nft_rules.lines(groups.openings(spec().group, "n02"), [22])
    assert "ip saddr 10.1.0.1 tcp dport 29501 accept" in lines
    assert "ip saddr 10.1.0.3 tcp dport 32768-60999 accept" in lines
    assert not any("10.1.0.2" in line for line in lines)


def test_range_of_ports_reads_back_from_the_kernel_as_it_was_written() -> None:
    match = {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}}
    ports = {"match": match | {"right": {"range": [32768, 60999]}}}
    rule = {"rule": {"chain": "input", "expr": [ports, {"accept": None}]}}
    assert nft_rules.listed({"nftables": [rule]}) == ["tcp dport 32768-60999 accept"]


@pytest.mark.parametrize(
    ("join", "names"), [("tensor", ["n02", "n09"]), ("data", ["n01", "n02", "n09"])]
)
def test_fleet_asks_only_nodes_that_answer(join: str, names: list[str]) -> None:
    member = {"group": GROUP | {"join": join}}
    hosts: list[tuple[str, dict[str, Any]]] = [("n01", member), ("n02", member), ("n09", {})]
    found = fleet.filled({"fleet": {"port": 9000}}, fleet.gateways(hosts))["fleet"]["nodes"]
    assert [node["name"] for node in found] == names
