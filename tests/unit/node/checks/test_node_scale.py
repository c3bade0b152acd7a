"""A fault of all GPUs, of one half, of what is between them: one finding, and no GPU is blamed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.checks.node_scale import MOST_READ, fold
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action, Finding, Status, Verdict, grouped
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import corpus, paths, states
from tests.unit.case import Case, apply

BOARD = "the HGX baseboard"
WAIVER = {"check": "nvlink.links", "owner": "ops", "reason": "J-1", "until": "2026-12-01"}


def spoiled(place: str, value: Any, gpus: range = range(8)) -> states.State:
    """The healthy state with one reading of some GPUs changed."""
    state = states.healthy()
    for index in gpus:
        for path in paths.matching(state, paths.parse(f"gpus[{index}].{place}")):
            paths.put(state, path, value)
    return state


def blocking(place: str, value: Any, gpus: range = range(8)) -> list[Finding]:
    """What keeps that node from serving."""
    return judge(states.expectation(), spoiled(place, value, gpus)).blocking


ON_ALL = {
    "links[*].state": (0, "reboot", BOARD),
    "links[3].state": (0, "reboot", f"an NVSwitch of {BOARD}"),
    "links[*].speed_mbps": (10_000, "reset-gpu", BOARD),
    "fabric.state": (2, "restart-service", BOARD),
    "fabric.status": (999, "restart-service", BOARD),
    "fabric.health_mask": (0x90, "restart-service", BOARD),
    "ecc_volatile_uncorrected": (3, "reset-gpu", BOARD),
    "ecc_aggregate_uncorrected": (9000, "replace", BOARD),
    "pcie.width": (8, "power-cycle", BOARD),
    "memory_total_mib": (163840, "reboot", BOARD),
    "clocks_event_reasons": (64, "none", ""),
    "mig": (True, "none", ""),
    "recovery_action": (1, "reset-gpu", BOARD),
}


@in_subtests("place", ON_ALL)
def test_fault_of_all_gpus_is_one_of_the_node(place: str) -> None:
    value, action, part = ON_ALL[place]
    found = blocking(place, value)
    assert [(f.subject, f.action.word, f.part) for f in found] == [("node", action, part)]
    assert found[0].subjects == tuple(f"GPU {index}" for index in range(8))
    assert_message(found[0].summary)


@in_subtests("place", [p for p in ON_ALL if p != "memory_total_mib"], one_in=4)
def test_fault_of_one_half_blames_none_of_it(place: str) -> None:
    value, action, part = ON_ALL[place]
    for half in (range(4), range(4, 8)):
        found = blocking(place, value, half)
        assert [(f.subject, f.action.word, f.part) for f in found] == [("node", action, part)]
        assert "half of the GPUs at once" in found[0].summary


@in_subtests("place", [p for p in ON_ALL if p != "memory_total_mib"], one_in=4)
def test_fault_of_some_gpus_is_of_each(place: str) -> None:
    for gpus in (range(1), range(2, 5), range(1, 8)):
        found = blocking(place, ON_ALL[place][0], gpus)
        assert [f.subject for f in found] == [f"GPU {index}" for index in gpus]
        assert all(f.part.startswith(f"{f.subject} (") for f in found)


def test_different_faults_of_one_check_on_all_gpus_are_told_together() -> None:
    state = spoiled("links[*].state", 0, range(3))
    for index in range(3, 8):
        state["gpus"][index]["links"][index]["state"] = 0
    found = judge(states.expectation(), state).blocking
    assert [(f.check, f.subject, f.action.word) for f in found] == [
        ("nvlink.links", "node", "reboot")
    ]
    assert_message(found[0].summary, found[0].read)


def test_what_helps_one_fault_is_not_asked_for_where_others_are_beside_it() -> None:
    """Whichever GPU comes first: one Xid 145 among other Xids says nothing of a switch."""
    for position in (0, 7):
        state = states.healthy()
        state["xids"] = [
            {"pci_address": gpu["pci_address"], "code": 95, "text": "x Fatal"}
            for gpu in state["gpus"]
        ]
        state["xids"][position]["code"] = 145
        found = judge(states.expectation(), state).blocking
        assert [(f.action.word, f.part) for f in found] == [("reset-gpu", BOARD)]


def test_many_findings_are_folded_without_comparing_each_with_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Finding] = []

    def compare(one: Finding, other: object) -> bool:
        compared.append(one)
        return one is other

    monkeypatch.setattr(Finding, "__eq__", compare)
    gpus = [f"GPU {index}" for index in range(8)]
    many = [
        Finding(
            f"{gpu} has fault {number}", Status.FAIL, gpu, f"x{number}", action=Action.RESET_GPU
        )
        for number in range(50)
        for gpu in gpus
    ]
    (one,) = fold(many, (), [gpus], BOARD)
    assert not compared
    assert one.read.count(";") == MOST_READ


def test_fault_of_one_gpu_among_the_same_of_all_is_not_lost() -> None:
    state = states.healthy()
    state["xids"] = [
        {"pci_address": gpu["pci_address"], "code": 145, "text": "RLW_REMAP Fatal"}
        for gpu in state["gpus"]
    ]
    state["xids"].append({"pci_address": state["gpus"][2]["pci_address"], "code": 79, "text": "x"})
    found = judge(states.expectation(), state).blocking
    assert [f.subject for f in found] == ["node", "GPU 2"]


def test_nvml_without_any_gpu_is_one_finding() -> None:
    state = states.healthy()
    state["gpus"] = []
    found = judge(states.expectation(), state).blocking
    missing = [f for f in found if f.check == "identity.nvml-count"]
    assert [(f.subject, f.part) for f in missing] == [("node", "")]
    assert missing[0].subjects[0] == "the GPU at 0000:8f:00.0"


def test_all_bridges_are_one_fault_too() -> None:
    state = states.healthy()
    for gpu in state["pci"]["gpus"]:
        gpu["bridges"][0]["current_link_width"] = 8
    found = judge(states.expectation(), state).blocking
    assert [(f.check, f.subject, f.part) for f in found] == [("pcie.path", "node", BOARD)]


_OF_A_GPU = re.compile(r"^(pci\.)?gpus\[\d+\]|^xids$")


def of_gpus() -> list[Case]:
    """Cases of faults of single GPUs, each of which all GPUs may have at once."""
    return [
        case
        for case in corpus.cases("unfit")
        if not case.drop
        and case.base.startswith("healthy")
        and case.set
        and all(map(_OF_A_GPU.match, case.set))
        and len(states.recorded(case.base)["gpus"]) == 8
    ]


def of_all(case: Case) -> states.State:
    """The state in which every GPU has the faults of a case."""
    state = states.recorded(case.base)
    apply(state, {re.sub(r"gpus\[\d+\]", "gpus[*]", p): v for p, v in case.set.items()}, None)
    state["xids"] = [
        {**entry, "pci_address": gpu["pci_address"]}
        for entry in state["xids"]
        for gpu in state["gpus"]
    ]
    return state


@in_subtests("case", of_gpus, ids=lambda case: case.id, one_in=10)
def test_what_all_gpus_have_never_ends_in_a_new_gpu(case: Case) -> None:
    for finding in judge(case.expectation(), of_all(case)).blocking:
        assert finding.subject == "node", finding.summary
        assert not re.search(r"\bGPU \d", finding.part + advice.of(finding)), advice.of(finding)


def test_the_faults_of_all_gpus_are_many() -> None:
    assert len(of_gpus()) > 80


def waived(waivers: list[dict[str, str]]) -> Verdict:
    expect = states.expectation()
    expect["waivers"] = waivers
    return judge(expect, spoiled("links[*].state", 0))


def test_waiver_of_one_gpu_holds_and_the_others_stay_a_fault_of_the_node() -> None:
    found = [
        f for f in waived([{**WAIVER, "subject": "GPU 3"}]).findings if f.check == "nvlink.links"
    ]
    assert [(f.status, len(f.subjects), f.subject) for f in found] == [
        (Status.FAIL, 7, "node"),
        (Status.WAIVED, 1, "node"),
    ]


@in_subtests("subject", [{}, {"subject": "node"}])
def test_waiver_of_all_or_of_the_node_holds(subject: dict[str, str]) -> None:
    assert waived([{**WAIVER, **subject}]).fit == "fit"


def test_missing_reading_is_told_once_with_its_parts() -> None:
    """Also where each part has a place of its own in the reason, and nobody is told twice."""
    for gpus, whose in ((range(8), "GPU 0-7"), (range(2, 5), "GPU 2-4")):
        state = states.healthy()
        for index in gpus:
            del state["gpus"][index]["ecc"]
        found = judge(states.expectation(), state).blocking
        assert [f.check for f in found] == ["ecc.enabled"]
        text = f"each of {whose}: ecc could not be read: gpus[*].ecc"
        assert found[0].summary.startswith(text)


def test_hung_nvml_is_one_line() -> None:
    state = states.healthy()
    gone = {"unmeasured": "timed out after 20 s"}
    for gpu in state["gpus"]:
        gpu.update({key: gone for key in gpu if key != "index"})
    found = [f for f in judge(states.expectation(), state).blocking if "timed out" in f.read]
    assert len(found) > 50
    assert [more for _, more in grouped(found)] == [len(found) - 1]
