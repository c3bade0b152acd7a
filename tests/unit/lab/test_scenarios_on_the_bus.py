"""Scenarios that the PCI bus tells, read from the simulated /sys and judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.facts import pci
from b200kit.node.state.verdict import Action, Verdict
from tests.lab.firmware.lab_firmware import pci as firmware
from tests.lab.firmware.lab_firmware import tree
from tests.lab.hardware import scenario
from tests.unit import numa_map, states

#: scenario -> fit, and check, subject and action of findings against it
MUST_FIND: dict[str, tuple[str, set[tuple[str, str, Action]]]] = {
    "healthy": ("fit", set()),
    "eight-numa-nodes": ("fit", set()),
    "interleaved-cpus": ("fit", set()),
    "one-numa-node": ("fit", set()),
    "memory-less-node": ("unfit", {("numa.gpu", "node", Action.NONE)}),
    "numa-node-unknown": (
        "unmeasured",
        {("numa.gpu", f"GPU {index}", Action.NONE) for index in range(8)},
    ),
    "acs-on": (
        "unfit",
        {("pcie.acs", f"bridge 0000:{at}", Action.NONE) for at in ("15:01.0", "17:00.0")},
    ),
    "bridge-at-gen3": (
        "unfit",
        {("pcie.path", f"bridge 0000:{at}", Action.POWER_CYCLE) for at in ("4c:01.0", "4d:00.0")},
    ),
}

Judged = Callable[[str], Verdict]


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """The verdict on a healthy node whose bus and NUMA nodes are a scenario's."""
    monkeypatch.setattr(pci, "SYS", tmp_path)

    def read(name: str) -> Verdict:
        rendered, state = scenario.render(name, 2), states.healthy()
        tree.write(tmp_path / "bus/pci", firmware.tree(rendered, "nvidia"))
        for gpu, place in zip(state["gpus"], rendered["gpus"], strict=True):
            gpu["pci_address"] = place["pci_address"]
        state["pci"]["gpus"] = pci.gpus()
        nodes = [
            {"id": n["id"], "cpus": n["cpus_written"], "memory_kib": n["memory_gib"] << 20}
            for n in rendered["numa_nodes"]
        ]
        numa_map.put_nodes(state, nodes)
        for nic in state["pci"]["nics"]:
            nic["bridges"] = []
        return judge(states.expectation(), state)

    return read


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MUST_FIND)
def test_what_the_bus_tells_is_found(name: str, judged: Judged) -> None:
    verdict, (fit, wanted) = judged(name), MUST_FIND[name]
    found = {
        (f.check, subject, f.action)
        for f in verdict.findings
        if f.blocks
        for subject in (f.subject, *f.subjects)
    }
    assert wanted <= found
    assert {check for check, _, _ in found} == {check for check, _, _ in wanted}
    assert verdict.fit == fit
