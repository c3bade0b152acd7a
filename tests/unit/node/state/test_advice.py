"""What a person is told to do: who is reset, and what comes before a part is replaced."""

from __future__ import annotations

from b200kit.node.checks.judge import judge
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action
from tests.subtests import in_subtests
from tests.unit import states


def told(state: states.State) -> str:
    """What to do about the first fault of a node."""
    return advice.of(judge(states.expectation(), state).blocking[0])


def test_board_is_not_replaced_before_the_node_was_rebooted() -> None:
    state = states.healthy()
    for gpu in state["gpus"]:
        gpu["fabric"]["state"] = 2
    text = told(state)
    steps = (
        "stop every replica",
        "restart nvidia-fabricmanager",
        "reset all GPUs",
        "reboot the node",
    )
    places = [text.index(step) for step in (*steps, "replace the HGX baseboard")]
    assert places == sorted(places)


def test_both_gpus_of_a_dead_pair_are_reset() -> None:
    state = states.healthy()
    state["p2p"]["nvlink"][0][3] = 3
    assert told(state).startswith("reset both GPUs, then reboot the node; if it returns, replace")


def test_setting_of_all_gpus_blames_no_part() -> None:
    state = states.healthy()
    for gpu in state["gpus"]:
        gpu["persistence"] = False
    assert told(state).startswith("systemctl restart nvidia-persistenced.service")


@in_subtests(
    ("key", "value", "step"),
    [
        ("ecc", False, "nvidia-smi -e 1"),
        ("ecc_pending", False, "nvidia-smi -e 1, before"),
        ("mig", True, "nvidia-smi -mig 0"),
        ("mig_pending", True, "nvidia-smi -mig 0, before"),
        ("gsp_enabled", False, "NVreg_EnableGpuFirmware"),
    ],
)
def test_setting_of_a_gpu_is_not_reset_away(key: str, value: bool, step: str) -> None:
    state = states.healthy()
    state["gpus"][6][key] = value
    [found] = judge(states.expectation(), state).blocking
    assert found.action is Action.NONE
    assert step in advice.of(found)
