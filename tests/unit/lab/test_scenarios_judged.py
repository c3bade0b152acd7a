"""Every scenario, read by the real NVML worker and judged: the finding that it must give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.facts import xid
from b200kit.node.facts.nvml.client import Worker
from b200kit.node.state.verdict import Action, Status, Verdict
from tests.lab.hardware import scenario, shim_build
from tests.unit import node_schema, numa_map, states
from tests.unit.lab.shim_kit import write_conf

DRIVER = "580.105.08"
"""The driver of the recorded states, whose packages and modules go with it."""
NODE = "node"
WAIT_S = 20.0
HANG_S = 3.0
"""How long NVML may take; where a call hangs, long enough for the GPUs that do answer."""

FIT = {
    *("healthy", "four-numa-nodes", "six-numa-nodes-two-without-gpu", "eight-numa-nodes"),
    *("interleaved-cpus", "one-numa-node"),
}
#: scenario -> check, subject and action of a finding against it
MUST_FIND: dict[str, tuple[str, str, Action]] = {
    "bring-up-no-p2p": ("p2p.read", NODE, Action.RESET_GPU),
    "bring-up-one-gpu-waits": ("fabric.state", "GPU 3", Action.RESET_GPU),
    "fabric-in-progress": ("fabric.state", NODE, Action.RESTART_SERVICE),
    "fabric-not-success": ("fabric.status", "GPU 5", Action.REBOOT),
    "fabric-unhealthy": ("fabric.health", "GPU 5", Action.RESET_GPU),
    "gpu-asks-for-reset": ("recovery.action", "GPU 2", Action.RESET_GPU),
    "gpu-lost": ("nvml.gpu", "GPU 5", Action.POWER_CYCLE),
    "gpu2-no-nvlink": ("nvlink.links", "GPU 2", Action.RESET_GPU),
    "mig-on": ("mode.mig", "GPU 7", Action.NONE),
    "mixed-vbios": ("uniform.vbios", "GPU 5", Action.NONE),
    "nvml-hangs": ("nvlink.links", "GPU 5", Action.NONE),
    "one-pair-no-p2p": ("p2p.read", "GPU 1 > GPU 4", Action.RESET_GPU),
    "one-slow-link": ("nvlink.speed", "GPU 3", Action.RESET_GPU),
    "row-remap-pending": ("remap.pending", "GPU 6", Action.RESET_GPU),
    "one-gpu": ("identity.pci-count", NODE, Action.POWER_CYCLE),
    "seven-gpus": ("identity.pci-count", NODE, Action.POWER_CYCLE),
    "seventeen-links": ("nvlink.links", "GPU 3", Action.RESET_GPU),
    "thermal-slowdown": ("clocks.slowdown", "GPU 4", Action.POWER_CYCLE),
}
UNMEASURED = {"nvml-hangs"}

Judged = Callable[[str], tuple[dict[str, Any], Verdict]]


def put_places(state: dict[str, Any], rendered: dict[str, Any]) -> None:
    """Make the recorded node's PCI devices and NUMA nodes those of the scenario."""
    devices = state["pci"]["gpus"][: len(rendered["gpus"])]
    for device, gpu in zip(devices, rendered["gpus"], strict=True):
        device |= {"address": gpu["pci_address"], "numa_node": gpu["numa_node"]}
    state["pci"]["gpus"] = devices
    nodes = [
        {"id": n["id"], "cpus": n["cpus_written"], "memory_kib": n["memory_gib"] << 20}
        for n in rendered["numa_nodes"]
    ]
    numa_map.put_nodes(state, nodes)
    for nic in state["pci"]["nics"]:
        nic["bridges"] = []
    lines = [entry["line"] for entry in rendered["xids"]]
    state["xids"] = xid.found(xid.XID, lambda: lines)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML stand-in of the recorded states' driver."""
    folder = tmp_path_factory.mktemp("judged")
    return shim_build.compile_shim(folder / shim_build.SONAME, DRIVER)


@pytest.fixture
def judged(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    """The state of a node as a scenario tells it, and its verdict."""

    def read(name: str) -> tuple[dict[str, Any], Verdict]:
        rendered = scenario.render(name, 2)
        done = rendered["fabric"]["completes"]
        conf = write_conf(tmp_path / "conf", rendered["nvml"], DRIVER, fabric_done=done)
        Path(f"{conf}.persistence").touch()
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver.parent))
        monkeypatch.setenv("B200_LAB_NVML_CONF", str(conf))
        state = states.healthy()
        put_places(state, rendered)
        state |= Worker(HANG_S if name in UNMEASURED else WAIT_S).result()
        return state, judge(states.expectation(), state)

    return read


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(FIT))
def test_node_without_a_fault_is_fit(name: str, judged: Judged) -> None:
    state, verdict = judged(name)
    assert node_schema.problems(state) == []
    assert [finding.summary for finding in verdict.findings if finding.blocks] == []
    assert verdict.fit == "fit"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", sorted(MUST_FIND))
def test_fault_of_a_scenario_is_found(name: str, judged: Judged) -> None:
    state, verdict = judged(name)
    found = {(f.check, f.subject, f.action): f.status for f in verdict.findings if f.blocks}
    status = Status.UNMEASURED if name in UNMEASURED else Status.FAIL
    assert found.get(MUST_FIND[name]) == status, sorted(found)
    assert verdict.fit == status.value.replace("fail", "unfit")
    if name == "nvml-hangs":  # it names the reading, and costs no other GPU
        assert node_schema.problems(state) == []
        assert {subject for _, subject, _ in found} <= {"GPU 5", NODE}
        assert state["gpus"][5]["links"]["unmeasured"].endswith("(recovery_action)")


def test_fabric_that_does_not_complete_names_every_gpu(judged: Judged) -> None:
    _, verdict = judged("fabric-in-progress")
    [failed] = [f for f in verdict.findings if f.check == "fabric.state" and f.blocks]
    assert failed.subjects == tuple(f"GPU {index}" for index in range(8))


def test_gpu_that_is_missing_is_named_by_what_is_left(judged: Judged) -> None:
    _, verdict = judged("seven-gpus")
    [count] = [f for f in verdict.findings if f.check == "identity.pci-count"]
    assert (count.status, count.part) == (Status.FAIL, "module 5")


def described(name: str) -> dict[str, Any]:
    """What NVML says of a scenario, without the places of the GPUs."""
    rendered = scenario.render(name, 2)
    nvml = {k: v for k, v in rendered["nvml"].items() if not k.endswith((".cpus", ".numa_node"))}
    return {"nvml": nvml, "fabric": rendered["fabric"]}


def test_every_scenario_that_nvml_tells_is_judged_here() -> None:
    faulty = {name for name in scenario.names() if described(name) != described("healthy")}
    assert faulty == set(MUST_FIND)
    assert set(scenario.names()) >= FIT
