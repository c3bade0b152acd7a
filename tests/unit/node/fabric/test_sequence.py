"""The bring-up: each state with a node that is stuck in it, what helps, and who tells it alike."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from b200kit.catalog import hardware
from b200kit.node.checks.judge import judge, registered
from b200kit.node.fabric import bring_up, sequence
from b200kit.node.fabric.states import PERSISTENCE, STATES
from b200kit.node.facts.nvml import client
from b200kit.node.state.mend import MANAGER
from b200kit.node.state.plausible import plausible
from b200kit.node.state.verdict import Action
from tests.messages import assert_message
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit import paths, states
from tests.unit.states import State

GONE = {"unmeasured": "for the test"}
PERSISTED = f"units[{PERSISTENCE}]"
MANAGED = f"units[{MANAGER}]"
FAILED = {f"{MANAGED}.active": "failed", f"{MANAGED}.sub": "failed"}
WAITING = {"gpus[*].fabric.state": 2}
# A node stuck in each state: what differs from a healthy one, and a part of what is reported.
STUCK: dict[str, list[tuple[dict[str, Any], str]]] = {
    "gpus on the bus": [
        ({"pci.gpus[3]": None}, "7 of 8 GPUs are on the PCI bus"),
        ({"pci.gpus[3].device": "2330"}, "is 10de:2330"),
        ({"pci.gpus": GONE}, "could not be read"),
    ],
    "driver": [
        (
            {
                "nvml": {"unmeasured": "Driver Not Loaded (9)"},
                "gpus": {"unmeasured": "Driver Not Loaded (9)"},
                "modules.nvidia": None,
                "pci.gpus[*].driver": None,
            },
            "the NVIDIA driver is not loaded",
        ),
        ({"modules.nvidia": "580.95.05"}, "kernel module nvidia is 580.95.05"),
        (
            {
                "nvml.driver_version": "575.57.08",
                "nvml.nvml_version": "12.575.57.08",
                "modules.nvidia": "575.57.08",
                "modules.nvidia_uvm": "575.57.08",
            },
            "is wanted",
        ),
        ({"pci.gpus[2].driver": "vfio-pci"}, "vfio-pci"),
        ({"gpus[5].uuid": {"unmeasured": "GPU is lost (15)"}}, "GPU 5"),
        ({"kernel.driver_options.NvLinkDisable": "1"}, "switches NVLink off"),
    ],
    "mlx5": [
        ({"modules.mlx5_ib": None}, "kernel module mlx5_ib is not loaded"),
        ({"modules.mlx5_core": None, "modules.ib_umad": None}, "mlx5_core"),
        ({"modules.mlx5_ib": GONE}, "could not be read"),
    ],
    "ib_umad": [({"modules.ib_umad": None, **FAILED, **WAITING}, "ib_umad is not loaded")],
    "management port": [
        ({"pci.nics[*].switch_management": False, **FAILED}, "none of 16 InfiniBand devices"),
        ({"pci.nics": []}, "no InfiniBand device is there"),
        ({"pci.nics[*].ports[0].sm_disabled": True}, "isSMdisabled is set on mlx5_0"),
        ({"pci.nics[2]": None}, "could not be read"),
    ],
    "nvlsm": [
        ({"packages.nvlsm": None, **FAILED}, "nvlsm is not installed"),
        ({"fabric_manager.nvlsm_installed": False}, "its program is gone"),
        ({"packages.nvlsm.status": "iF"}, "not fully installed"),
    ],
    "versions": [
        ({"packages.nvidia-fabricmanager.version": "580.95.05-1", **FAILED}, "580.95.05-1"),
    ],
    "persistence daemon": [({f"{PERSISTED}.active": "failed"}, f"{PERSISTENCE} is not active")],
    "fabric manager": [
        ({**FAILED, **WAITING}, f"{MANAGER} is not active (failed"),
        ({f"{MANAGED}.active": "activating"}, "activating"),
        ({f"{MANAGED}.load": "masked", f"{MANAGED}.active": "inactive"}, "masked"),
        ({"fabric_manager.mode": 1, **WAITING}, "FABRIC_MODE is 1"),
        ({f"{MANAGED}.active": GONE}, "could not be read"),
    ],
    "subnet manager": [
        ({"fabric_manager.nvlsm_running": False, **WAITING}, "nvlsm does not run"),
    ],
    "links": [({"gpus[2].links[*].state": 0}, "GPU 2 has no NVLink")],
    "registration": [
        ({"gpus[3].fabric.state": 2}, "GPU 3 has not completed its fabric registration"),
        ({"gpus[5].fabric.status": 23}, "insufficient resources"),
        ({"gpus[5].fabric.health_summary": 2}, "GPU 5 reports its fabric health as unhealthy"),
        ({"gpus[5].fabric": GONE}, "could not be read"),
    ],
    "peers": [({"p2p": GONE}, "could not be read")],
}
CASES = [(name, changes, says) for name, each in STUCK.items() for changes, says in each]


def expectation(name: str = "hgx-b200") -> State:
    """What a node is judged by, as a run asks it."""
    units = {"services": [PERSISTENCE, MANAGER]}
    return {**states.expectation(name), "bring_up": "judged", **units}


def node(changes: dict[str, Any] | None = None) -> State:
    """A ready node with some readings changed; an entry that is null is taken out."""
    state = states.ready(states.healthy())
    for text, value in (changes or {}).items():
        path = paths.parse(text)
        for found in paths.matching(state, path):
            paths.put(state, found, deepcopy(value))
    state["pci"]["gpus"] = _without_null(state["pci"]["gpus"])
    return state


def _without_null(entries: Any) -> Any:
    return [e for e in entries if e is not None] if isinstance(entries, list) else entries


def dead_peers() -> State:
    """Completed and healthy everywhere, and no GPU reaches another (dstack#1167)."""
    state = node()
    for kind in ("read", "write", "nvlink"):
        state["p2p"][kind] = [[None if a == b else 5 for b in range(8)] for a in range(8)]
    return state


def test_ready_node_has_come_through() -> None:
    at = sequence.position(expectation(), node())
    assert (at.name, at.reached) == ("done", len(STATES))
    assert_message(sequence.progress(at, node()))
    assert sequence.stuck_line(at, node()) == ""


@in_subtests(("name", "changes", "says"), CASES)
def test_node_stands_in_the_first_state_that_does_not_hold(
    name: str, changes: dict[str, Any], says: str
) -> None:
    state = node(changes)
    at = sequence.position(expectation(), state)
    assert at.name == name, at.observed
    line = sequence.stuck_line(at, state)
    assert line.startswith(f"stuck at {name}: ")
    assert says in line
    assert "\n" not in line


def test_peers_that_reach_nobody_hold_a_completed_node() -> None:
    at = sequence.position(expectation(), dead_peers())
    assert at.name == "peers"
    assert_message(sequence.stuck_line(at, dead_peers()))


@in_subtests(("name", "changes", "says"), CASES, one_in=5)
def test_gate_tells_the_same_cause_first(name: str, changes: dict[str, Any], says: str) -> None:
    state = plausible(node(changes))
    at = sequence.position(expectation(), state)
    first = judge(expectation(), state).blocking[0]
    assert at.observed is not None
    assert first.summary == at.observed.summary, (name, says)


def test_every_state_has_a_node_that_is_stuck_in_it() -> None:
    assert list(STUCK) == [state.name for state in STATES]


def test_states_come_in_the_order_in_which_the_gate_tells_their_checks() -> None:
    order = {name: number for number, name in enumerate(registered())}
    places = [[order[name] for name in state.checks] for state in STATES]
    assert all(sorted(place) == place for place in places)
    for before, after in pairwise(places):
        assert max(before) <= max(after)
        assert min(before) <= min(after)


def test_every_state_says_what_it_is() -> None:
    names = [state.name for state in STATES]
    assert len(set(names)) == len(names)
    for state in STATES:
        assert state.waits_for
        assert state.source
        assert state.action is not Action.NONE
        assert 0 <= state.share <= 1
        assert state.share or state.help is None
        assert "{" not in state.remedy.format(kernel="6.8.0-1020-aws")


def leaves_of(state: State) -> list[paths.Path]:
    """One place of each kind of reading that is looked at, and every object and list above it."""
    looked_at = {key: state[key] for key in (*bring_up.LOOKED_AT, *client.KEYS)}
    one = {paths.general(path): path for path in paths.leaves(looked_at)}
    above = {path[:length] for path in one.values() for length in range(1, len(path) + 1)}
    return sorted(above, key=str)


@in_subtests("name", STUCK)
def test_a_reading_that_is_gone_never_takes_a_node_further(name: str) -> None:
    """One reading in five with each state, other ones with the next.

    That what is gone mends no check is tests/unit/node/checks/test_judge_properties.py.
    """
    state = dead_peers() if name == "peers" else node(STUCK[name][0][0])
    before = sequence.position(expectation(), state)
    assert before.name == name
    for path in sample(leaves_of(state)[list(STUCK).index(name) % 5 :: 5], 10):
        at = sequence.position(expectation(), _spoiled(state, path))
        assert at.reached <= before.reached, (at.name, path)


def _spoiled(state: State, path: paths.Path) -> State:
    """Without a reading; an entry of a list is not measured, so that the others stay in place."""
    spoiled: State = _copy_along(state, path)
    if isinstance(path[-1], int):
        paths.put(spoiled, path, GONE)
    else:
        paths.remove(spoiled, [path])
    return spoiled


@in_subtests("key", [*bring_up.LOOKED_AT, *client.KEYS], one_in=5)
def test_a_part_that_is_not_measured_never_takes_a_node_further(key: str) -> None:
    for name, cases in STUCK.items():
        state = node(cases[0][0])
        before = sequence.position(expectation(), state)
        at = sequence.position(expectation(), {**state, key: GONE})
        assert at.reached <= before.reached, name


def _copy_along(state: Any, path: paths.Path) -> Any:
    """A copy that shares all but what lies on a path."""
    if not path:
        return state
    copy = dict(state) if isinstance(state, dict) else list(state)
    copy[path[0]] = _copy_along(state[path[0]], path[1:])  # type: ignore[index]
    return copy


@in_subtests("document", [None, [], {}, {"schema": "other"}, "text"])
def test_what_is_no_observation_holds_the_node_at_the_beginning(document: Any) -> None:
    at = sequence.position(expectation(), document)
    assert (at.name, at.reached) == (STATES[0].name, 0)
    assert sequence.position(None, node()).reached == 0
    assert "repair the reading" in sequence.stuck_line(at, document)


ODD: list[Any] = [None, True, -1, "", [], [None], [[]], {}, {"unmeasured": {}}, {"x": 1}]


@in_subtests("odd", ODD, ids=repr, one_in=5)
@in_subtests("key", [*bring_up.LOOKED_AT, *client.KEYS])
def test_nothing_that_a_part_may_be_ends_the_walk(key: str, odd: Any) -> None:
    state = {**node(), key: odd}
    at = sequence.position(expectation(), state)
    assert sequence.describe(at, expectation(), state)["state"] == at.name
    assert isinstance(sequence.acts(at, expectation(), state), list)
    at = sequence.position({**expectation(), "bring_up": odd}, state)
    assert sequence.describe(at, {**expectation(), "bring_up": odd}, state)["hidden"] == ""


HELP: dict[str, tuple[dict[str, Any], list[tuple[str, ...]]]] = {
    "nvidia": ({"modules.nvidia": None}, [("modprobe", "nvidia")]),
    "both of mlx5": (
        {"modules.mlx5_core": None, "modules.mlx5_ib": None},
        [("modprobe", "mlx5_core"), ("modprobe", "mlx5_ib")],
    ),
    "ib_umad": ({"modules.ib_umad": None}, [("modprobe", "ib_umad")]),
    "manager": ({**FAILED, **WAITING}, [("systemctl", "start", "--no-block", MANAGER)]),
    "a manager that GPUs outlived": ({**FAILED, f"{MANAGED}.invocation_id": "a"}, []),
    "starting": ({f"{MANAGED}.active": "activating"}, []),
    "masked": ({f"{MANAGED}.active": "inactive", f"{MANAGED}.load": "masked"}, []),
    "unread": ({f"{MANAGED}.active": GONE}, []),
    "persistence": (
        {f"{PERSISTED}.active": "inactive"},
        [("systemctl", "start", "--no-block", PERSISTENCE)],
    ),
    "a GPU that is away": ({"pci.gpus[3]": None, **FAILED}, []),
    "waiting": (WAITING, []),
}


@in_subtests("name", HELP)
def test_only_what_the_state_needs_is_done(name: str) -> None:
    changes, wanted = HELP[name]
    state = node(changes)
    at = sequence.position(expectation(), state)
    assert sequence.acts(at, expectation(), state) == wanted


@pytest.mark.parametrize("missing", ["nvidia", "mlx5_core", "mlx5_ib", "ib_umad"])
def test_fabric_manager_is_never_started_before_its_modules(missing: str) -> None:
    state = node({f"modules.{missing}": None, **FAILED, f"{PERSISTED}.active": "failed"})
    acts = sequence.acts(sequence.position(expectation(), state), expectation(), state)
    assert acts == [("modprobe", missing)]


NVLINK5_ALONE = {"mlx5", "ib_umad", "management port", "nvlsm", "subnet manager"}


def judged_states(name: str) -> set[str]:
    """The states that a hardware has."""
    left_out = set(hardware.load(name).get("not_applicable", {}))
    return {state.name for state in STATES if set(state.checks) - left_out}


def test_hardware_goes_through_the_states_that_apply_to_it() -> None:
    every = {state.name for state in STATES}
    assert judged_states("hgx-b200") == every
    for name in ("hgx-h100", "hgx-h200"):
        assert judged_states(name) == every - NVLINK5_ALONE
    # Of the fabric manager only that it runs where the inventory asks for it.
    units = {"gpus on the bus", "driver", "persistence daemon", "fabric manager"}
    assert judged_states("single") == units


def test_single_gpu_has_come_through_without_a_fabric_manager() -> None:
    document = {**expectation("single"), "driver": None, "services": [PERSISTENCE], "gpu_count": 1}
    state = states.recorded("healthy-single-b200")
    state["units"].pop(MANAGER, None)
    assert sequence.position(document, state).name == "done"
    assert_message(sequence.summary(state))


def test_nvlink4_node_needs_neither_nvlsm_nor_ib_umad() -> None:
    document = {**expectation("hgx-h100"), "driver": None, "services": [PERSISTENCE]}
    state = states.recorded("healthy-hgx-h100")
    state["modules"] |= {"ib_umad": None, "mlx5_ib": None}
    state["packages"]["nvlsm"] = None
    assert sequence.position(document, state).name == "done"


def test_hidden_product_data_is_told_and_holds_nobody() -> None:
    changes = {"pci.nics[*].switch_management": False, "pci.nics[*].vital_product_data": False}
    state = node(changes)
    assert sequence.position(expectation(), state).name == "done"
    assert_message(sequence.hidden(expectation(), state))
    assert sequence.hidden(expectation(), node()) == ""


def test_waived_finding_holds_nobody() -> None:
    waiver = {"check": "fabric.health", "subject": "GPU 5", "owner": "ops", "reason": "J-1"}
    document = {**expectation(), "waivers": [{**waiver, "until": "2026-12-01"}]}
    state = node({"gpus[5].fabric.health_summary": 2})
    assert sequence.position(document, state).name == "done"


def test_progress_counts_the_gpus_that_have_completed() -> None:
    state = node({"gpus[3].fabric.state": 2, "gpus[4].fabric.state": 1})
    at = sequence.position(expectation(), state)
    assert sequence.progress(at, state) == "6 of 8 GPUs completed"


def test_remedy_names_the_kernel_and_the_higher_of_two_actions() -> None:
    state = node({"modules.mlx5_ib": None, "host.kernel": "6.8.0-1020-aws"})
    at = sequence.position(expectation(), state)
    line = sequence.stuck_line(at, state, ["modprobe mlx5_ib: not found"])
    assert_message(line)
    state = node({"gpus[5].fabric.status": 23})
    assert "-> reboot: " in sequence.stuck_line(sequence.position(expectation(), state), state)


def test_what_the_checks_look_at_is_asked_for() -> None:
    asked = sequence.requested(expectation())
    assert asked["units"] == [MANAGER, PERSISTENCE]
    assert {"nvlsm", "nvidia-fabricmanager", "nvidia-fabricmanager-580"} <= set(asked["packages"])
    assert sequence.requested(None) == {"units": [], "packages": ["nvlsm"]}
