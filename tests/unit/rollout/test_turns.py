"""When a wave begins, and when none does any more."""

from __future__ import annotations

import threading

import pytest

from b200kit.rollout.turns import NotChanged, Turns
from b200kit.rollout.waves import Wave


def turns(lost: set[str]) -> Turns:
    """The canary and two more waves; *lost* have an outcome."""
    waves = [Wave(("a",), canary=True), Wave(("b", "c")), Wave(("d",))]
    return Turns(waves, stop_after=1, lost=lost.__contains__)


def waiting(turn: Turns, name: str) -> tuple[threading.Thread, list[object]]:
    """A node that waits for its wave, and what comes of it."""
    found: list[object] = []

    def wait() -> None:
        try:
            found.append(turn.wait(name))
        except NotChanged as reason:
            found.append(reason)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread, found


def test_wave_begins_when_the_one_before_has_ended() -> None:
    turn = turns(set())
    assert turn.wait("a") is False
    thread, found = waiting(turn, "b")
    turn.leave("a")
    thread.join()
    assert found == [True]
    turn.wait("c")
    turn.leave("b")
    thread, found = waiting(turn, "d")
    thread.join(0.2)
    assert found == []
    turn.leave("c")
    thread.join()
    assert found == [True]


def test_node_at_work_that_has_its_outcome_already_holds_the_next_wave_until_it_left() -> None:
    lost: set[str] = set()
    turn = turns(lost)
    turn.wait("a")
    # It was rolled back: its outcome stands before the rollout knows that the change was bad.
    lost.add("a")
    thread, found = waiting(turn, "b")
    thread.join(1.2)
    assert found == []
    turn.leave("a", "slower than its record")
    thread.join()
    assert [type(one) for one in found] == [NotChanged]


def test_node_that_left_the_run_before_its_turn_holds_nobody() -> None:
    turn = turns({"a", "b", "c"})
    assert turn.wait("d") is False


def test_no_wave_begins_after_a_bad_one() -> None:
    turn = turns(set())
    turn.wait("a")
    turn.leave("a", "red")
    for name in "bcd":
        with pytest.raises(NotChanged):
            turn.wait(name)
