"""What a person is told to do: who is reset, and what comes before a part is replaced."""

from __future__ import annotations

from b200kit.node.checks.judge import judge
from b200kit.node.state import advice
from tests.unit import states


def told(state: states.State) -> str:
    """What to do about the first fault of a node."""
    return advice.of(judge(states.expectation(), state).blocking[0])


def test_board_is_not_replaced_before_the_node_was_rebooted() -> None:
    state = states.healthy()
    for gpu in state["gpus"]:
        gpu["fabric"]["state"] = 2
    assert told(state) == (
        "restart the service, then reboot the node; if it returns, replace the HGX baseboard"
    )


def test_both_gpus_of_a_dead_pair_are_reset() -> None:
    state = states.healthy()
    state["p2p"]["nvlink"][0][3] = 3
    assert told(state).startswith("reset both GPUs, then reboot the node; if it returns, replace")


def test_setting_of_all_gpus_blames_no_part() -> None:
    state = states.healthy()
    for gpu in state["gpus"]:
        gpu["persistence"] = False
    assert told(state) == "restart the service"
