"""Which nodes go in which wave."""

from __future__ import annotations

from typing import Any

from b200kit.inventory.keys.group import Group
from b200kit.inventory.keys.rollout import Rollout
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.rollout import waves
from b200kit.rollout.waves import Wave, WaveUnit
from tests.unit.specs import CATALOGUE, data


def specs(**more: dict[str, Any]) -> dict[str, NodeSpec]:
    """Nodes by name, with what is special of each."""
    plain = parse(data(), CATALOGUE)
    assert isinstance(plain, NodeSpec)
    return {name: plain.replace(**changes) for name, changes in more.items()}


def nodes(found: list[Wave]) -> list[tuple[str, ...]]:
    """The names by wave."""
    return [wave.nodes for wave in found]


def test_canaries_go_one_after_another_and_then_as_many_as_may() -> None:
    units = [WaveUnit((name,)) for name in "abcdef"]
    found = waves.waves(units, Rollout(max_out=2), canaries_left=2)
    assert nodes(found) == [("a",), ("b",), ("c", "d"), ("e", "f")]
    assert [wave.canary for wave in found] == [True, True, False, False]


def test_wave_stays_within_a_rack() -> None:
    racks = {"a": "r1", "b": "r2", "c": "r1", "d": "r2", "e": "r1"}
    units = [WaveUnit((name,), rack) for name, rack in racks.items()]
    found = waves.waves(units, Rollout(max_out=3, by="rack"), canaries_left=0)
    assert nodes(found) == [("a", "c", "e"), ("b", "d")]


def test_group_is_one_unit_whichever_of_it_is_changed() -> None:
    members = {"n1": "10.1.0.1", "n2": "10.1.0.2"}
    group = Group.model_validate(
        {"name": "g", "members": members, "head": "n1", "interface": "ens1"}
    )
    known = specs(n1={"group": group}, n2={"group": group}, n3={})
    assert waves.units(known, ["n2", "n3"]) == [WaveUnit(("n1", "n2")), WaveUnit(("n3",))]
    found = waves.waves(waves.units(known, ["n1", "n3"]), Rollout(max_out=1), canaries_left=0)
    assert nodes(found) == [("n1", "n2"), ("n3",)]


def test_strictest_of_different_keys_holds() -> None:
    found = waves.strictest([Rollout(max_out=3, watch_s=5), Rollout(canary=2, by="rack")])
    assert (found.canary, found.max_out, found.watch_s, found.by) == (2, 1, 60, "rack")
