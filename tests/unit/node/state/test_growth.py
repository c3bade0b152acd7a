"""Counters compared over a minute: what grew, what fell, what cannot be compared."""

from __future__ import annotations

from b200kit.node.state import growth
from b200kit.node.state.growth import Counters
from tests.unit import states
from tests.unit.states import State


def counted(replays: int) -> tuple[State, str]:
    """A node whose GPU 3 has counted so many; that GPU's UUID."""
    state = states.healthy()
    state["gpus"][3]["pcie"]["replays"] = replays
    return state, state["gpus"][3]["uuid"]


def test_counters_are_compared_with_those_of_a_minute_ago() -> None:
    (first, uuid), (second, _) = counted(5), counted(25)
    kept = growth.after(None, first, 100.0)
    assert (kept.growth, kept.pcie_replays[uuid]) == (None, 5)
    early = growth.after(kept, second, 110.0)
    assert early == kept
    late = growth.after(kept, second, 180.0)
    assert late.growth
    assert (late.growth.seconds, late.growth.pcie_replays[uuid]) == (80.0, 20)
    again = growth.after(late, second, 190.0)
    assert again.growth == late.growth


def test_a_counter_that_fell_or_is_not_read_has_not_grown() -> None:
    state, uuid = counted(3)
    state["gpus"][2]["pcie"]["replays"] = {"unmeasured": "Not Supported (3)"}
    before = Counters(0.0, {uuid: 5, state["gpus"][2]["uuid"]: 5})
    after = before.then(state, 60.0).growth
    assert after
    assert after.pcie_replays == {}


def test_without_counters_of_an_earlier_look_nothing_has_grown() -> None:
    assert growth.after(None, counted(5)[0], 100.0).growth is None
