"""No false alarm: what real healthy nodes report is fit."""

from __future__ import annotations

import pytest

from deploy.core.judge import judge
from deploy.core.verdict import Action, Status
from tests.unit import states
from tests.unit.states import Spoil, put


@pytest.mark.parametrize("name", ["healthy-hgx-b200", "healthy-snc2-four-nodes"])
def test_recorded_healthy_node_is_fit(name: str) -> None:
    verdict = judge(states.expectation(), states.recorded(name))
    assert verdict.fit == "fit", [f.summary for f in verdict.blocking]


HARMLESS: dict[str, Spoil] = {
    "idle PCIe at generation 1": put(1, "gpus", 0, "pcie", "generation"),
    "health mask 0xAA": put(0xAA, "gpus", 0, "fabric", "health_mask"),
    "health mask 0x1AA": put(0x1AA, "gpus", 0, "fabric", "health_mask"),
    "health summary not supported": put(0, "gpus", 0, "fabric", "health_summary"),
    "software power cap under load": put(4, "gpus", 0, "clocks_event_reasons"),
    "an application's own fault": put([states.xid(31, "MMU Fault")], "xids"),
    "row remap recorded": put([states.xid(63, "row remap")], "xids"),
    "nonfatal NVLink message": put([states.xid(145, "RLW_RXPIPE Nonfatal")], "xids"),
    "links that recovered": put(505, "gpus", 0, "links", 0, "recovery_success"),
    "few aggregate ECC errors": put(4, "gpus", 0, "ecc_aggregate_uncorrected"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_reading_is_fit(name: str) -> None:
    expect, state = states.expectation(), states.healthy()
    HARMLESS[name](state, expect)
    verdict = judge(expect, state)
    assert verdict.fit == "fit", [f.summary for f in verdict.blocking]


@pytest.mark.parametrize("name", ["health summary not supported", "links that recovered"])
def test_what_is_unknown_or_drifting_is_noted_without_blocking(name: str) -> None:
    expect, state = states.expectation(), states.healthy()
    HARMLESS[name](state, expect)
    noted = [f for f in judge(expect, state).findings if f.action is Action.MONITOR]
    assert [f.status for f in noted] == [Status.PASS]
    assert noted[0].subject == "GPU 0"


def test_numa_node_unknown_is_fine_where_there_is_only_one() -> None:
    state = states.healthy()
    state["numa"] = state["numa"][:1]
    for gpu in state["pci"]["gpus"]:
        gpu["numa_node"] = -1
    assert judge(states.expectation(), state).fit == "fit"


@pytest.mark.parametrize("order", [[0, 0, 2, 2, 3, 3, 5, 5], [3, 3, 1, 1, 7, 7, 5, 5]])
def test_numa_nodes_in_any_order_with_some_empty_are_fit(order: list[int]) -> None:
    state = states.healthy()
    state["numa"] = [{"id": n, "cpus": f"{n * 4}-{n * 4 + 3}", "memory_kib": 1} for n in range(8)]
    for gpu, node in zip(state["pci"]["gpus"], order, strict=True):
        gpu["numa_node"] = node
    assert judge(states.expectation(), state).fit == "fit"


def test_branch_named_packages_of_older_drivers_are_recognized() -> None:
    expect, state = states.expectation(), states.healthy()
    expect["driver"] = None
    for name in ("nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm"):
        state["packages"][f"{name}-580"] = state["packages"].pop(name)
    assert judge(expect, state).fit == "fit"
