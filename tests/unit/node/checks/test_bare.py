"""A node without a driver: bare where its hardware is right, and its faults where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.node.checks import bare
from b200kit.node.checks.judge import registered
from b200kit.node.state.expectation import PATH
from b200kit.node.state.verdict import Status, Verdict
from b200kit.operations import gate, steps
from tests.subtests import in_subtests
from tests.unit import paths, states
from tests.unit.nodes import bare as at_first
from tests.unit.nodes import look


def judged(changes: dict[str, Any]) -> Verdict | None:
    """The verdict on a bare node with some readings changed."""
    state = states.bare()
    for text, value in changes.items():
        for place in paths.matching(state, paths.parse(text)):
            paths.put(state, place, value)
    return bare.judged(states.expectation(), state)


def test_hardware_alone_is_judged_and_the_rest_left_out_by_name() -> None:
    verdict = judged({})
    assert verdict
    assert bare.outcome(verdict) == "bare"
    assert {f.check for f in verdict.findings} == set(bare.HARDWARE)
    assert {f.status for f in verdict.findings} == {Status.PASS}
    assert set(verdict.not_applicable) == set(registered()) - set(bare.HARDWARE)


@in_subtests(
    ("changes", "fit", "check"),
    [
        ({"pci.gpus[2].device": "2330"}, "unfit", "identity.device"),
        ({"pci.gpus[2].current_link_width": 8}, "unfit", "pcie.bus"),
        ({"pci.gpus[2].bridges[0].current_link_speed": "8.0 GT/s PCIe"}, "unfit", "pcie.path"),
        ({"pci.gpus[2].aer.fatal": 1}, "unfit", "pcie.aer"),
        ({"pci.gpus[2].numa_node": 7}, "unfit", "numa.gpu"),
        ({"pci.gpus[2].aer": {"unmeasured": "no"}}, "unmeasured", "pcie.aer"),
    ],
)
def test_fault_of_its_hardware_is_no_less_one(
    changes: dict[str, Any], fit: str, check: str
) -> None:
    verdict = judged(changes)
    assert verdict
    assert bare.outcome(verdict) == fit
    assert check in {finding.check for finding in verdict.blocking}


@in_subtests(("gpus", "outcome"), [(8, "bare"), (7, "unfit")])
def test_check_of_an_inventory_says_so_too(tmp_path: Path, gpus: int, outcome: str) -> None:
    node, machine = at_first(tmp_path)
    machine.hardware = states.bare()
    del machine.hardware["pci"]["gpus"][gpus:]
    machine.readings["readiness"] = machine.hardware["readiness"]
    look(node)
    gate.report(node, steps.observed)
    assert node.record.outcome == outcome
    assert "nvml.available" not in str(node.record.error)


@in_subtests(
    "changes",
    [
        {"modules.nvidia": "580.105.08"},
        {"readiness.driver.files": {"/usr/lib/x/libnvidia-ml.so.570": None}},
        {f"files[{PATH}]": {"sha256": "0", "mode": 420, "owner": "root:root"}},
        {"files": {"unmeasured": "no"}},
        {"modules": {"unmeasured": "no"}},
        {"readiness": {"unmeasured": "no"}},
        {"pci.gpus": []},
    ],
)
def test_node_with_a_driver_or_a_deployment_or_unread_is_not_bare(changes: dict[str, Any]) -> None:
    assert judged(changes) is None
