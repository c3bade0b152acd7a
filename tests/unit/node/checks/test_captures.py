"""Real machines: the healthy ones are fit, the broken ones are reported with cause and action."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.facts import xid
from b200kit.node.state.verdict import Verdict
from b200kit.records.expected import without_deployment
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit import captures, node_schema, smi_xml, states

State = dict[str, Any]
TOPO, TABLE = "b200x8-nccl-tests333-topo.txt", "b200x8-nccl-tests333-nvidia-smi.txt"


def judged(state: State, hardware: str = "hgx-b200") -> Verdict:
    """The verdict where any one driver version will do, as the captures have different ones."""
    return judge({**states.expectation(hardware), "driver": None}, state)


def qx_b200() -> State:
    """The node of the XML as it is."""
    return captures.from_xml(captures.text(captures.XML))


def qx_b200_persistent() -> State:
    """The same with nvidia-persistenced running, which the capture's virtual machine had not."""
    state = qx_b200()
    for gpu in state["gpus"]:
        gpu["persistence"] = True
    return state


def nccl_tests() -> State:
    """The node of NVIDIA/nccl-tests#333, from both of its captures."""
    state = captures.with_topology(states.healthy(), captures.text(TOPO))
    return captures.with_table(state, captures.text(TABLE))


def topo(name: str, base: str = "healthy-hgx-b200") -> State:
    """A node of a `topo -m`."""
    return captures.with_topology(states.recorded(base), captures.text(name))


HEALTHY: dict[str, tuple[Callable[[], State], str]] = {
    "k8s-test-infra": (qx_b200_persistent, "hgx-b200"),
    "nccl-tests#333": (nccl_tests, "hgx-b200"),
    "unsloth#3872": (lambda: topo("b200x8-unsloth3872-snc2-4nodes.txt"), "hgx-b200"),
    "ml-engineering": (lambda: topo("h100x8-mlengineering.txt", "healthy-hgx-h100"), "hgx-h100"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_machine_is_fit(name: str) -> None:
    make, hardware = HEALTHY[name]
    state = make()
    verdict = judged(state, hardware)
    assert node_schema.problems(state) == []
    assert verdict.fit == "fit", [f"{f.check}: {f.summary}" for f in verdict.blocking]
    assert [f.summary for f in verdict.findings if f.action] == []


def test_persistence_mode_that_the_capture_has_off_is_all_that_is_reported() -> None:
    found = judged(qx_b200()).blocking
    told = [(f.check, f.action.word, f.subject, len(f.subjects)) for f in found]
    assert told == [("mode.persistence", "restart-service", "node", 8)]


def gpu2_off() -> State:
    return topo("b200x8-vllm16336-BROKEN-gpu2-no-nvlink.txt")


def bad_status() -> State:
    block = captures.text("BROKEN-fabric-state-azhpc506.txt")
    return captures.with_fabric(states.healthy(), block, [5])


def no_fabric() -> State:
    block = captures.text("gb200-gpud1108-fabric-not-supported.txt")
    return captures.with_fabric(states.healthy(), block, list(range(8)))


def no_ib_umad() -> State:
    journal = captures.text("BROKEN-fm-no-ib_umad-canvos700.txt")
    return captures.with_journal(states.healthy(), journal)


BROKEN: dict[str, tuple[Callable[[], State], set[tuple[str, str, str]]]] = {
    "vllm#16336": (
        gpu2_off,
        {("nvlink.links", "reset-gpu", "GPU 2"), ("p2p.nvlink", "reset-gpu", "GPU 2")},
    ),
    "azhpc-images#506": (bad_status, {("fabric.status", "reboot", "GPU 5")}),
    "gpud#1108": (no_fabric, {("fabric.state", "restart-service", "node")}),
    "CanvOS#700": (
        no_ib_umad,
        {
            ("modules.loaded", "restart-service", "node"),
            ("fabric.units", "restart-service", "node"),
        },
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_machine_is_told_with_cause_and_action(name: str) -> None:
    make, wanted = BROKEN[name]
    state = make()
    verdict = judged(state)
    assert node_schema.problems(state) == []
    assert verdict.fit == "unfit"
    assert {(f.check, f.action.word, f.subject) for f in verdict.blocking} == wanted


def test_what_the_topology_tells_is_in_the_state() -> None:
    state = nccl_tests()
    assert [gpu["numa_node"] for gpu in state["pci"]["gpus"]] == [0] * 4 + [1] * 4
    assert [node["cpus"] for node in state["numa"]] == ["0-55,112-167", "56-111,168-223"]
    nics = state["pci"]["nics"]
    assert [nic["name"] for nic in nics if nic["switch_management"]] == [
        f"mlx5_{number}" for number in range(4)
    ]
    assert len(nics) == 16
    # NIC 8 is the one whose cells are glued to the next: PXB to GPU 2 and to no other.
    assert nics[8]["bridges"] == [b["address"] for b in state["pci"]["gpus"][2]["bridges"][:-1]]


def test_what_the_table_tells_is_in_the_state() -> None:
    state = nccl_tests()
    last = state["gpus"][7]
    assert last["pci_address"] == state["pci"]["gpus"][7]["address"] == "0000:df:00.0"
    assert (last["temperature_c"], last["power_usage_mw"]) == (33, 143000)
    assert (last["power_limit_mw"], last["memory_total_mib"]) == (1000000, 183359)
    assert state["nvml"]["driver_version"] == "570.158.01"


def test_a_capture_that_is_cut_off_is_completed_by_its_other_half() -> None:
    found = captures.topology(captures.text("b200x8-vllm16336-BROKEN-gpu2-no-nvlink.txt"))
    assert [found.links(f"GPU{index}") for index in range(8)] == [18, 18, 0, 18, 18, 18, 18, 18]
    assert found.between("GPU7", "GPU2") == "SYS"
    assert "GPU7" not in found.affinity


def test_a_state_from_the_document_agrees_with_it() -> None:
    assert smi_xml.compare(qx_b200(), captures.text(captures.XML)) == []


def test_every_value_of_the_document_is_read() -> None:
    places = {field.place for field in smi_xml.FIELDS}
    sums = (
        "clocks_event_reasons/",
        "fabric/health/",
        "ecc_errors/volatile/",
        "ecc_errors/aggregate/",
    )
    for gpu in smi_xml.parse(captures.text(captures.XML)):
        held = set(leaves(gpu))
        assert {place for place in held - places if not place.startswith(sums)} == set()
        assert places - held == set()
        assert [key for key, text in smi_xml.readings(gpu).items() if text is None] == []


def leaves(element: smi_xml.Element, above: str = "") -> list[str]:
    """The places of all values below an element."""
    places = [(child, f"{above}/{child.tag}".lstrip("/")) for child in element]
    return [p for child, here in places for p in (leaves(child, here) if len(child) else [here])]


PLANTED = {
    "vbios": "97.00.00.00.01",
    "memory_total_mib": 183358,
    "ecc": 1,
    "pcie.width": 8,
    "power_enforced_mw": 999999,
    "remap.banks.low": 1,
    "sram.volatile_uncorrected": 1,
    "fabric.health_mask": 0x80 | 1 << 4,
    "temperature_c": 99,
    "slowdown_margin_c": -2,
    "recovery_action": None,
    "clocks_event_reasons": None,
}


@in_subtests("key", PLANTED)
def test_a_planted_difference_is_found(key: str) -> None:
    state = qx_b200()
    captures.put(state["gpus"][6], key, PLANTED[key])
    found = smi_xml.compare(state, captures.text(captures.XML))
    assert len(found) == 1
    assert found[0].startswith(f"GPU 6 {key}: state ")


def test_what_changes_by_the_second_may_differ() -> None:
    state = qx_b200()
    state["gpus"][0].update(temperature_c=45, power_usage_mw=350000, sm_clock_mhz=1965)
    assert smi_xml.compare(state, captures.text(captures.XML)) == []


def test_another_driver_and_another_number_of_gpus_are_differences() -> None:
    state = qx_b200()
    state["nvml"]["driver_version"] = "580.126.20"
    assert "580.126.20" in smi_xml.compare(state, captures.text(captures.XML))[0]
    del state["gpus"][0]
    assert_message(*smi_xml.compare(state, captures.text(captures.XML)))


def test_a_word_nobody_knows_is_refused() -> None:
    document = captures.text(captures.XML).replace("<state>Completed<", "<state>Confused<")
    with pytest.raises(smi_xml.Unknown, match="Confused"):
        captures.from_xml(document)


H100 = "GPU-a1000001-6f1c-5a0e-9d31-000000000001"
REPLICA = "vllm@0.service"
OTHERS = {"clock.synchronized", "host.settings", "services.active"}
"""Checks of what a deploy sets, on a virtual machine to which nobody deployed."""
STATES_OF_H100 = ("idle", "full-power", "serving", "after-xids")


def findings(state: State, **asked: object) -> list[tuple[str, ...]]:
    """What is found of the H100, without what surrounds it."""
    expect = {**states.expectation("single"), "driver": None, "gpu_count": 1, **asked}
    return [
        (f.check, f.status.value, f.action.word, f.subject, f.summary)
        for f in judge(expect, state).findings
        if f.check not in OTHERS
    ]


@pytest.mark.parametrize("name", STATES_OF_H100)
def test_h100_is_well_whatever_it_does(name: str) -> None:
    state = captures.observed(name)
    assert node_schema.problems(state) == []
    told = [found[:4] for found in findings(state) if found[1:3] != ("pass", "none")]
    probed = bool(state["engine_probes"])
    notes = ["pcie.replays"] if probed else ["pcie.port", "pcie.replays"]
    assert told == [(check, "pass", "monitor", "GPU 0") for check in notes]


@pytest.mark.parametrize("name", STATES_OF_H100)
def test_h100_by_itself_is_fit_as_single(name: str) -> None:
    """As `b200 check` judges it, but for the next boot: there is no /lib/modules to look in."""
    state = captures.observed(name)
    expect = without_deployment("single", state)
    assert [f.check for f in judge(expect, state).blocking] == ["driver.next-boot"]
    waiver = {
        "check": "driver.next-boot",
        "owner": "ops",
        "reason": "the host's",
        "until": "9999-12-31",
    }
    verdict = judge({**expect, "waivers": [waiver]}, state)
    assert verdict.fit == "fit"
    assert "1 GPUs on NUMA nodes 0" in [f.summary for f in verdict.findings]


ALONE = {"a100": [], "l40s": ["pcie.width"], "rtx-pro-6000-max-q": [], "rtx-3090": []}
"""Captures of other single GPUs, and what is wrong with each: that L40S has 8 of its 16 lanes."""


@pytest.mark.parametrize("name", ALONE)
def test_each_gpu_by_itself_is_judged_by_its_own_figures(name: str) -> None:
    state = captures.single_gpu(name)
    expect = without_deployment("single", state)
    assert {f.check for f in judge(expect, state).blocking} == {"driver.next-boot", *ALONE[name]}
    [gpu] = state["gpus"]
    for key, check in (("memory_total_mib", "memory.size"), ("power_max_mw", "power.limit")):
        less = {**state, "gpus": [{**gpu, key: round(gpu[key] * 0.7)}]}
        assert check in [f.check for f in judge(expect, less).blocking]


def test_figures_of_one_gpu_are_no_other_s() -> None:
    state = captures.single_gpu("rtx-3090")
    expect = without_deployment("single", state)
    assert "ecc.enabled" not in {f.check for f in judge(expect, state).findings}
    [on_bus] = state["pci"]["gpus"]
    for device in ("2330", {"unmeasured": "it went away"}):
        other = {**state, "pci": {**state["pci"], "gpus": [{**on_bus, "device": device}]}}
        found = {f.check for f in judge(expect, other).blocking}
        assert {"ecc.enabled", "memory.size", "remap.count"} <= found


def test_gpu_that_its_power_limit_slows_is_found_as_the_idle_one() -> None:
    state = captures.observed("full-power")
    [gpu] = state["gpus"]
    assert (gpu["clocks_event_reasons"], gpu["sm_clock_mhz"], gpu["sm_clock_max_mhz"]) == (
        4, 1425, 1980,
    )  # fmt: skip
    assert gpu["power_usage_mw"] > gpu["power_limit_mw"]
    assert findings(state) == findings(captures.observed("idle"))


def test_xids_of_broken_programs_are_read_from_the_kernel_log() -> None:
    lines = captures.text("h100/xid-kernel-log.txt").splitlines()
    entries = [entry for line in lines if (entry := xid.parse(xid.XID, line))]
    wanted = captures.observed("after-xids")["xids"]
    keys = ("pci_address", "code", "text")
    assert [[entry[key] for key in keys] for entry in entries] == [
        [entry[key] for key in keys] for entry in wanted
    ]
    assert [(entry["code"], entry["text"][:8]) for entry in entries] == [
        (31, "pid=4347"), (43, "pid=4379"), (13, "Graphics"), (13, "Graphics"), (13, "pid=4415"),
    ]  # fmt: skip


def test_xids_of_broken_programs_change_nothing() -> None:
    after = captures.observed("after-xids")
    before = {**after, "xids": []}
    changed = set(findings(after)) ^ set(findings(before))
    assert {(check, status, action) for check, status, action, *_ in changed} == {
        ("xid.log", "pass", "none")
    }


def placed(state: State, cpus: str = "2-15") -> dict[str, str]:
    """Status by check of a serving replica that is to have these CPUs, node 0 and the GPU."""
    layout = {"by": "systemd", "cpus": cpus, "nodes": "0", "policy": "bind", "gpus": [H100]}
    serving = {"replicas": [REPLICA], "gateway": "haproxy.service"}
    found = findings(state, placement={REPLICA: layout}, serving=serving)
    return {
        check: status for check, status, *_ in found if check.startswith(("placement.", "serving."))
    }


def test_engine_runs_where_the_layout_puts_it() -> None:
    state = captures.observed("serving")
    assert {*placed(state).values()} == {"pass"}
    assert placed(state, cpus="2-14")["placement.cpus"] == "fail"
    elsewhere = deepcopy(state)
    elsewhere["processes"][0]["gpus"] = ["GPU-a1000002-6f1c-5a0e-9d31-000000000002"]
    assert placed(elsewhere)["placement.gpus"] == "fail"
