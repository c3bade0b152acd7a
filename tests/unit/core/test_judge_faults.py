"""Every fault is caught by its own check, with the right action; and every check is needed."""

from __future__ import annotations

import pytest

from deploy.core.judge import judge, registered
from deploy.core.verdict import Status
from tests.unit import states
from tests.unit.faults import DIAGNOSES, FAULTS
from tests.unit.states import Fault

EVERY = [*FAULTS, *DIAGNOSES]
BLOCKS_UNMEASURED = {"numa.gpu: node unknown", "driver.loaded: no module"}


@pytest.mark.parametrize("fault", EVERY, ids=lambda f: f.id)
def test_fault_is_caught_by_its_check(fault: Fault) -> None:
    expect, state = fault.applied()
    verdict = judge(expect, state)
    found = [f for f in verdict.findings if f.check == fault.check and f.blocks]
    assert found, f"{fault.check} found nothing"
    assert verdict.fit == ("unmeasured" if fault.id in BLOCKS_UNMEASURED else "unfit")
    assert found[0].action is fault.action
    assert fault.says in found[0].summary + found[0].part


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.id)
def test_without_its_check_the_faulty_node_would_pass(fault: Fault) -> None:
    expect, state = fault.applied()
    checks = registered()
    del checks[fault.check]
    verdict = judge(expect, state, checks)
    assert verdict.fit == "fit", [f.summary for f in verdict.blocking]


@pytest.mark.parametrize("fault", DIAGNOSES, ids=lambda f: f.id)
def test_without_its_check_the_cause_is_not_named(fault: Fault) -> None:
    expect, state = fault.applied()
    checks = registered()
    del checks[fault.check]
    verdict = judge(expect, state, checks)
    assert verdict.fit == "unmeasured"
    assert all(finding.status is not Status.FAIL for finding in verdict.findings)


def test_every_check_has_a_fault_that_proves_it() -> None:
    assert {fault.check for fault in EVERY} == set(registered())


def test_a_gpu_fault_names_the_part_to_pull() -> None:
    expect, state = states.expectation(), states.recorded("gpu2-no-nvlink")
    finding = judge(expect, state).blocking[0]
    assert finding.summary == "GPU 2 has no NVLink: 0 of 18 links up"
    for name in ("GPU 2", "module 7", "0000:96:00.0", "1650000000003", "GPU-00000002"):
        assert name in finding.part


def test_one_gpu_out_of_the_fabric_is_one_finding_a_kind_and_not_fourteen() -> None:
    verdict = judge(states.expectation(), states.recorded("gpu2-no-nvlink"))
    p2p = [f for f in verdict.blocking if f.check.startswith("p2p")]
    assert [f.subject for f in p2p] == ["GPU 2"] * 3
    assert "7 of its 7 peers" in p2p[0].summary


def test_the_gpu_that_lost_its_link_is_blamed_and_not_its_peers() -> None:
    state = states.healthy()
    state["xids"] = [
        states.xid(145, "RLW_REMAP Fatal", "0000:8f:00.0"),
        states.xid(45, "pid=1, Ch 1 caused by previous Xid 149", "0000:90:00.0"),
        states.xid(149, "NETIR_LINK_EVT Fatal", "0000:96:00.0"),
    ]
    blocking = judge(states.expectation(), state).blocking
    assert [f.subject for f in blocking] == ["GPU 2"]
