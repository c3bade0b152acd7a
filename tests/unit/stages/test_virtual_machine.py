"""A virtual machine with the NVSwitches outside: what it gets follows from its hardware."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from b200kit.catalog import hardware, load
from b200kit.node.checks.judge import judge
from b200kit.node.fabric import sequence
from b200kit.node.fabric.states import STATES
from b200kit.node.lib import timestamp
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, Finding
from b200kit.run.node import Node
from b200kit.stages import gate, host
from tests.fake.machine import KERNEL, READINESS, Machine
from tests.messages import assert_message
from tests.sample import sample
from tests.subtests import in_subtests
from tests.unit import corpus, states
from tests.unit.case import Case
from tests.unit.nodes import DRIVER, connected, look, make, planned, provide
from tests.unit.paths import PathError

VM = "hgx-b200-vm"
STAGES = ("host", "settings", "driver", "fabric", "gate unit")


def machine(folder: Path) -> Machine:
    """A guest as its image leaves it."""
    guest = Machine(folder, states.recorded(f"healthy-{VM}"))
    kind = {**READINESS, "headers": {KERNEL: True}, "virtualization": "kvm"}
    guest.readings = {"readiness": kind}
    return guest


def bare(folder: Path, like: str = VM) -> tuple[Node, Machine]:
    """A guest with nothing on it, observed."""
    guest = machine(folder)
    node = connected(guest)
    object.__setattr__(node.spec, "hardware", like)
    look(node)
    return node, guest


def described(node: Node) -> str:
    """All that the stages before the gate would change, in one text."""
    return "; ".join(what for name in STAGES for what in planned(node, name))


def test_guest_gets_no_fabric_manager_no_subnet_manager_and_no_acs_unit(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    everything = described(node)
    assert "nvidia-open" in everything
    assert "enable nvidia-persistenced.service" in everything
    for name in ("fabricmanager", "nscq", "nvsdm", "nvlsm", "infiniband", "b200-acs"):
        assert name not in everything, name
    expect = gate.expectation(node)
    assert "acs" not in expect["settings"]
    assert expect["driver"]["left_out"] == {}


def test_bare_metal_of_the_same_board_gets_them(tmp_path: Path) -> None:
    """What the test above leaves out is there where it belongs."""
    node, _ = bare(tmp_path, "hgx-b200")
    everything = described(node)
    for name in ("nvidia-fabricmanager", "libnvsdm", "nvlsm", "infiniband-diags", "b200-acs"):
        assert name in everything, name


def test_modules_of_the_fabric_manager_are_not_loaded_in_a_guest(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    files = {file.path: file.content for file in host.desired(node, ()).files}
    modules = files["/etc/modules-load.d/b200kit.conf"].decode().splitlines()
    assert [line for line in modules if not line.startswith("#")] == ["nvidia_uvm"]


def test_deployed_guest_is_fit_and_needs_no_further_change(tmp_path: Path) -> None:
    node, guest = bare(tmp_path)
    guest.loaded = DRIVER
    look(node)
    for name in STAGES:
        provide(guest, node, name)
        look(node)
    make(node, "settings")
    assert described(node) == ""
    expect = {**gate.expectation(node), "today": timestamp.today()}
    verdict = judge({**expect, "passport": "renew"}, node.state)
    told = [f for f in verdict.blocking if f.check.split(".")[0] not in ("logs", "weights")]
    assert [f.summary for f in told] == []
    assert sequence.position(expect, node.state).name == "done"
    assert "b200-acs.service" not in guest.units


def test_fabric_of_a_guest_has_the_states_that_it_can_see() -> None:
    left_out = set(hardware.load(VM)["not_applicable"])
    names = [state.name for state in STATES if set(state.checks) - left_out]
    assert names == [
        *("gpus on the bus", "driver", "persistence daemon", "fabric manager"),
        *("links", "registration", "peers"),
    ]


def test_guest_that_is_stuck_is_sent_to_the_host() -> None:
    state = states.recorded(f"healthy-{VM}")
    for gpu in state["gpus"]:
        gpu["fabric"]["state"] = 2
    expect = {**states.expectation(VM), "driver": None}
    at = sequence.position(expect, state)
    assert at.name == "registration"
    assert_message(sequence.stuck_line(at, state))


def spoiled(case: Case) -> states.State | None:
    """A guest with the faults of a case; none where it cannot have them."""
    state = states.recorded(f"healthy-{VM}")
    try:
        case.spoil(state)
    except PathError:
        return None
    return state


def of_guest() -> list[Case]:
    """The faults of the whole board that a guest can have, too."""
    board = [case for case in corpus.cases("unfit") if case.hardware == "hgx-b200"]
    return [case for case in board if spoiled(case)]


@cache
def blocking(name: str) -> list[Finding]:
    """What keeps a guest with the faults of a case from serving."""
    case = corpus.named(name)
    expect = {**case.expectation(), "hardware": hardware.load(VM), "driver": None}
    return judge(expect, spoiled(case)).blocking


INSIDE = {Action.NONE, Action.MONITOR, Action.RESTART_SERVICE, Action.REBOOT}


@in_subtests("case", of_guest, ids=lambda case: case.id, one_in=10)
def test_no_fault_asks_a_guest_for_what_only_the_host_can_do(case: Case) -> None:
    for finding in blocking(case.name):
        assert finding.action in INSIDE, finding.summary
        words = advice.of(finding)
        for deed in ("power-cycle", "replace", "reset the GPU", "fabric manager"):
            assert deed not in words or "on the host" in words, words


def test_most_of_those_faults_keep_a_guest_from_serving() -> None:
    assert len(of_guest()) > 150
    some = sample(of_guest(), 10)
    assert len([case for case in some if blocking(case.name)]) > len(some) / 2


def test_what_a_guest_is_told_of_each_kind_of_fault() -> None:
    cases = [case for case in corpus.cases("unfit") if case.hardware == VM]
    lines = [advice.of(finding) for c in cases for finding in corpus.verdict_of(c.name).blocking]
    assert_message(*sorted(set(lines)))


def test_files_for_two_kinds_of_machine_name_each_other() -> None:
    known = load.load().hardware
    for name, one in known.items():
        if one.virtual is not None:
            expect = hardware.load(name)["expect"]
            assert known[expect["machine.other_file"]["value"]].virtual is not one.virtual
