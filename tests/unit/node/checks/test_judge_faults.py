"""How faults are reported: of which part, and once. Which faults are found is in tests/corpus."""

from __future__ import annotations

from b200kit.node.checks.judge import judge
from tests.messages import assert_message
from tests.unit import states


def test_a_gpu_fault_names_the_part_to_pull() -> None:
    expect, state = states.expectation(), states.recorded("gpu2-no-nvlink")
    finding = judge(expect, state).blocking[0]
    assert_message(finding.summary)
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
        {"pci_address": "0000:8f:00.0", "code": 145, "text": "RLW_REMAP Fatal"},
        {
            "pci_address": "0000:90:00.0",
            "code": 45,
            "text": "pid=1, Ch 1 caused by previous Xid 149",
        },
        {"pci_address": "0000:96:00.0", "code": 149, "text": "NETIR_LINK_EVT Fatal"},
    ]
    blocking = judge(states.expectation(), state).blocking
    assert [f.subject for f in blocking] == ["GPU 2"]
