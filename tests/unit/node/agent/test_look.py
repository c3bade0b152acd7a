"""A look at a node that serves: whom a fault touches, what is kept, and planned work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from b200kit.inventory.keys.parts import TAKES_OUT
from b200kit.node.agent import look
from b200kit.node.checks.host import passport_record
from b200kit.node.checks.judge import judge
from b200kit.node.facts import resident
from b200kit.node.lib import boot_clock, documents
from b200kit.node.lib.documents import structure, unstructure
from b200kit.node.state import watch
from b200kit.node.state.quarantine import Quarantine
from b200kit.node.state.serving import ServedReplica, Serving
from b200kit.node.state.verdict import Finding, Status, Verdict
from b200kit.node.state.watch import HealthCheck
from tests.unit import serving_document, states
from tests.unit.states import State

BOTH = (0, 1)


def replicas(state: State) -> list[ServedReplica]:
    """Two, of four GPUs each."""
    uuids = [gpu["uuid"] for gpu in state["gpus"]]
    parts = (uuids[:4], uuids[4:])
    return [ServedReplica(n, "", f"vllm@{n}.service", tuple(part)) for n, part in enumerate(parts)]


def failing(state: State) -> list[Finding]:
    """What the judge finds."""
    found = judge(states.expectation(), state).findings
    return [finding for finding in found if finding.status is Status.FAIL]


def touched(state: State, serving: list[ServedReplica]) -> set[tuple[int, ...]]:
    """The replicas that its faults touch."""
    return {look.touched(finding, state, serving, TAKES_OUT) for finding in failing(state)}


def test_a_fault_of_a_gpu_touches_the_replica_that_has_it() -> None:
    state = states.healthy()
    serving = replicas(state)
    state["gpus"][5]["links"][4]["state"] = 0
    assert touched(state, serving) == {(1,)}


def test_pairs_of_gpus_matter_to_the_replica_that_has_both() -> None:
    state = states.healthy()
    serving = replicas(state)
    for other in (0, 1, 3, 4, 5, 6, 7):
        state["p2p"]["nvlink"][2][other] = state["p2p"]["nvlink"][other][2] = 1
    assert touched(state, serving) == {(0,)}
    state = states.healthy()
    state["p2p"]["nvlink"][2][6] = 1
    assert touched(state, serving) == {()}


def test_a_fault_of_the_node_touches_all() -> None:
    state = states.healthy()
    serving = replicas(state)
    state["units"]["nvidia-fabricmanager.service"]["active"] = "failed"
    assert touched(state, serving) == {BOTH}


def test_a_gpu_that_is_gone_is_known_by_the_passport() -> None:
    state = states.healthy()
    serving = replicas(state)
    state["notes"]["passport"] = passport_record.issue(state)
    gone = state["gpus"].pop(6)
    state["nvml"]["device_count"] = 7
    lost = look.lost_gpus(state)
    assert lost == {gone["uuid"]}
    finding = Finding("7 of 8 GPUs", Status.FAIL, check="identity.nvml-count")
    assert look.touched(finding, state, serving, TAKES_OUT) == (1,)
    # Those behind it moved up by one.
    moved = Finding("hot", Status.FAIL, subject="GPU 3", check="thermal.margin")
    assert look.touched(moved, state, serving, TAKES_OUT) == (0,)
    # What is only reported is not of the replica that lost a GPU.
    clock = Finding("wrong", Status.FAIL, check="clock.synchronized")
    assert look.touched(clock, state, serving, TAKES_OUT) == ()


def test_a_fault_of_a_replica_touches_that_one_alone() -> None:
    state = states.healthy()
    lost = Finding("elsewhere", Status.FAIL, subject="vllm@1.service", check="placement.cpus")
    assert look.touched(lost, state, replicas(state), TAKES_OUT) == (1,)


def test_a_gpu_is_known_by_its_address_in_either_form() -> None:
    state = states.healthy()
    serving = replicas(state)
    address = state["gpus"][7]["pci_address"].lower()
    for form in (address, "0000" + address):
        finding = Finding("path", Status.FAIL, subject=f"the GPU at {form}", check="pcie.path")
        assert look.touched(finding, state, serving, TAKES_OUT) == (1,)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> State:
    """A node that serves; its observation is the returned state."""
    state = states.healthy()
    state["notes"]["quarantine"] = None
    state["units"]["vllm@0.service"] = {"active": "active"}
    monkeypatch.setattr(resident.Resident, "observe", lambda *_: state)
    (tmp_path / "expect.json").write_text(json.dumps(states.expectation()))
    (tmp_path / "serving.json").write_text(json.dumps(serving(state)))
    return state


def serving(state: State) -> dict[str, Any]:
    """As much of serving.json as must be there."""
    uuids, watchdog = [r.uuids for r in replicas(state)], {"takes_out": list(TAKES_OUT)}
    return serving_document.document("http://g", uuids, watchdog=watchdog)


def looks(tmp_path: Path, count: int = 1) -> dict[str, Any]:
    """So many looks, each by a process that has just started, and what the last one left."""
    left = tmp_path / "look.json"
    for _ in range(count):
        one = look.HealthChecks(
            look.judged_by([str(tmp_path / "expect.json")]),
            documents.load(Serving, tmp_path / "serving.json"),
            documents.remembered(HealthCheck, left),
        )
        left.write_bytes(documents.to_bytes(one.once()))
    found: dict[str, Any] = json.loads(left.read_text())
    return found


def test_two_looks_confirm(node: State, tmp_path: Path) -> None:
    node["gpus"][5]["links"][4]["state"] = 0
    assert [f["confirmed"] for f in looks(tmp_path)["faults"]] == [False]
    (fault,) = looks(tmp_path, 2)["faults"]
    assert (fault["confirmed"], fault["replicas"]) == (True, [1])


def test_a_look_does_without_the_dearest_reading_of_nvml(
    node: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out: list[tuple[str, ...]] = []

    def observe(of: resident.Resident, *_: object) -> State:
        left_out.append(of.leave_out)
        return node

    monkeypatch.setattr(resident.Resident, "observe", observe)
    for gpu in node["gpus"]:
        del gpu["inforom_valid"]
    assert looks(tmp_path)["fit"] == "fit"
    assert left_out == [("inforom_valid",)]


@pytest.fixture
def several(
    node: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[look.HealthChecks, list[bool]]:
    """Looks one after the other, and whether each read everything anew."""
    fresh: list[bool] = []

    def observe(_: object, anew: bool) -> State:
        fresh.append(anew)
        return node

    monkeypatch.setattr(resident.Resident, "observe", observe)
    serving = documents.load(Serving, tmp_path / "serving.json")
    one = look.HealthChecks(look.judged_by([str(tmp_path / "expect.json")]), serving)
    return one, fresh


def test_where_something_was_found_everything_is_read_anew(
    node: State, several: tuple[look.HealthChecks, list[bool]]
) -> None:
    one, fresh = several
    one.once()
    one.once()
    one.once(fresh=True)
    node["gpus"][5]["links"][4]["state"] = 0
    one.once()
    one.once()
    assert fresh == [True, False, True, False, True]


def test_what_could_not_be_read_is_read_anew_until_the_node_is_fit(
    node: State, several: tuple[look.HealthChecks, list[bool]]
) -> None:
    """The agent starts while its node boots: what is not there yet must not stay unread."""
    one, fresh = several
    modules, node["modules"] = node["modules"], {"unmeasured": "not yet"}
    assert one.once().fit == "unmeasured"
    node["modules"] = modules
    assert [one.once().fit, one.once().fit] == ["fit", "fit"]
    assert fresh == [True, True, False]


def serves(tmp_path: Path, **changes: Any) -> None:
    """Let the looks judge what serves, too."""
    replica_names = ["vllm@0.service", "vllm@1.service"]
    known = {"serving": {"replicas": replica_names, "gateway": "haproxy.service"}, **changes}
    before = json.loads((tmp_path / "expect.json").read_text())
    (tmp_path / "expect.json").write_text(json.dumps(before | known))


def found(tmp_path: Path, count: int = 3) -> list[tuple[str, list[int]]]:
    """The confirmed faults after so many looks: check and replicas."""
    faults = looks(tmp_path, count)["faults"]
    return [(f["finding"]["check"], f["replicas"]) for f in faults if f["confirmed"]]


def test_a_gateway_that_died_is_found_and_one_that_restarts_is_not(
    node: State, tmp_path: Path
) -> None:
    serves(tmp_path)
    node["units"]["vllm@1.service"] = {"active": "active"}
    node["units"]["haproxy.service"] = {"active": "activating", "sub": "start"}
    assert found(tmp_path) == []
    node["units"]["haproxy.service"] = {"active": "failed", "result": "signal", "job": 0}
    assert found(tmp_path) == [("serving.running", [0, 1])]


def test_an_engine_that_is_restarted_by_hand_is_no_fault(node: State, tmp_path: Path) -> None:
    serves(tmp_path)
    node["units"]["haproxy.service"] = {"active": "active"}
    node["units"]["vllm@1.service"] = {"active": "active"}
    for active, sub in (("deactivating", "stop-sigterm"), ("activating", "start"), ("active", "")):
        node["units"]["vllm@1.service"] |= {"active": active, "sub": sub}
        assert found(tmp_path, 5) == []


def test_a_full_disk_and_a_stepped_clock_are_found(node: State, tmp_path: Path) -> None:
    serves(tmp_path, room={"/var": 1024})
    node["units"] |= {name: {"active": "active"} for name in ("vllm@1.service", "haproxy.service")}
    node["disks"]["/var"] = {"total_bytes": 10**12, "free_bytes": 10**6}
    # What a step leaves: the kernel forgets that it was synchronized (ntp_clear, time/ntp.c).
    node["host"]["clock_synchronized"] = False
    assert sorted(found(tmp_path)) == [("clock.synchronized", []), ("serving.room", [])]


def test_what_is_only_reported_leaves_what_serves_fit(node: State, tmp_path: Path) -> None:
    serves(tmp_path, serving=None, room={"/var": 1024})
    node["disks"]["/var"] = {"total_bytes": 10**12, "free_bytes": 10**6}
    node["host"]["clock_synchronized"] = False
    found = looks(tmp_path, 2)
    assert (len(found["set_aside"]), found["fit_serving"], found["fit"]) == (2, "fit", "unfit")
    # Not so what takes replicas out, while it has not, and a reading that is gone.
    node["gpus"][5]["links"][4]["state"] = 0
    assert looks(tmp_path)["fit_serving"] == "unfit"
    node["gpus"][5]["links"] = {"unmeasured": "NVML hangs"}
    assert looks(tmp_path)["fit_serving"] == "unmeasured"


def test_a_replica_that_lost_its_cpus_is_found(node: State, tmp_path: Path) -> None:
    pins = {"cpus": "0-3", "nodes": "0", "policy": "local", "by": "systemd"}
    serves(tmp_path, placement={"vllm@0.service": pins})
    node["units"] |= {name: {"active": "active"} for name in ("vllm@1.service", "haproxy.service")}
    process = {"unit": "vllm@0.service", "pid": 7, "comm": "vllm", "mems": "0", "cpus": "0-3"}
    node["processes"] = [process | {"numa_maps_bound": "", "gpus": []}]
    assert found(tmp_path) == []
    node["processes"][0]["cpus"] = "0-223"
    # As b200.py leaves it that has other pins for it, until it is restarted.
    node["files"][look.restarts("vllm@0.service")] = {"sha256": "0" * 64}
    assert found(tmp_path) == []
    node["files"][look.restarts("vllm@0.service")] = None
    assert found(tmp_path) == [("placement.cpus", [0])]


def test_replays_count_by_the_minute_and_take_nothing_out(
    node: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(boot_clock, "seconds", lambda: now[0])
    node["gpus"][5]["pcie"]["replays"] = 10**6
    assert found(tmp_path) == []
    now[0], node["gpus"][5]["pcie"]["replays"] = 60.0, 10**6 + 9
    assert found(tmp_path) == [("replays.rate", [1])]
    assert watch.out(structure(HealthCheck, looks(tmp_path)).faults, TAKES_OUT) == {}
    now[0] = 120.0
    assert found(tmp_path) == []


def test_a_confirmed_fault_leaves_its_request_in_the_observation(
    node: State, tmp_path: Path
) -> None:
    node["gpus"][6]["remap"]["pending"] = True
    assert looks(tmp_path)["remediation"] == []
    (asked,) = looks(tmp_path)["remediation"]
    assert (asked["check"], asked["subject"], asked["action"]) == (
        *("remap.pending", "GPU 6"),
        "reset-gpu",
    )


def test_what_cannot_all_be_read_is_judged_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"a": 1}')
    one, none = str(tmp_path / "one.json"), str(tmp_path / "none.json")
    assert look.judged_by([one]) == {"a": 1}
    assert look.judged_by([one, none]) is None


def test_when_certificates_end_is_kept_for_the_metrics(node: State, tmp_path: Path) -> None:
    files = {name: f"/etc/haproxy/{name}" for name in ("shown", "believed", "gone")}
    serves(tmp_path, serving=None, certificates=dict.fromkeys(files.values(), "chain"))
    held = {"begins": "2026-01-01T00:00:00Z", "ends": "2027-01-01T00:00:00Z"}
    node["certificates"] = {files["shown"]: held, files["believed"]: {"unmeasured": "OSError"}}
    ends = {files["shown"]: held["ends"], files["believed"]: "", files["gone"]: ""}
    assert looks(tmp_path)["certificates"] == ends


def test_a_node_that_is_worked_on_has_no_faults(node: State, tmp_path: Path) -> None:
    node["gpus"][5]["links"][4]["state"] = 0
    looks(tmp_path, 2)
    node["notes"]["quarantine"] = {"why": "rollout: driver"}
    found = looks(tmp_path, 3)
    assert (found["in_service"], found["faults"]) == (False, [])


def test_a_node_on_trial_is_judged_and_has_no_faults(node: State, tmp_path: Path) -> None:
    node["host"]["uptime_s"] = 900.0
    mark = Quarantine(why="rollout: driver")
    mark = mark.admitted("ops", ("then", "later"), node["host"]["boot_id"], 960.0)
    node["notes"]["quarantine"] = unstructure(mark)
    found = looks(tmp_path)
    assert (found["in_service"], found["on_trial"], found["fit_serving"]) == (False, True, "fit")
    node["gpus"][5]["links"][4]["state"] = 0
    found = looks(tmp_path, 3)
    assert (found["fit_serving"], found["faults"]) == ("unfit", [])
    node["host"]["uptime_s"] += 60
    found = looks(tmp_path)
    assert (found["on_trial"], found["fit_serving"]) == (False, None)


def test_a_mark_that_cannot_be_read_clears_nothing(node: State, tmp_path: Path) -> None:
    node["gpus"][5]["links"][4]["state"] = 0
    before = looks(tmp_path, 2)["faults"]
    node["notes"]["quarantine"] = {"unmeasured": "JSONDecodeError"}
    assert [f["confirmed"] for f in before] == [True]
    assert [f["confirmed"] for f in looks(tmp_path)["faults"]] == [True]


def test_what_restarts_is_not_judged_and_what_was_found_stays(node: State, tmp_path: Path) -> None:
    node["units"]["vllm@0.service"]["active"] = "activating"
    node["gpus"][5]["links"][4]["state"] = 0
    assert looks(tmp_path, 3)["faults"] == []
    node["units"]["vllm@0.service"]["active"] = "active"
    before = looks(tmp_path, 2)["faults"]
    node["units"]["vllm@0.service"]["active"] = "activating"
    node["gpus"][5]["links"][4]["state"] = 1
    assert looks(tmp_path, 5)["faults"] == before


def test_a_look_says_what_it_judged_for_those_who_prove_something_by_it(
    node: State, tmp_path: Path
) -> None:
    found = looks(tmp_path)
    assert (found["running"], found["fit"], found["bandwidth"]) == ([0], "fit", "pass")
    node["gpus"][5]["links"][4]["state"] = 0
    assert looks(tmp_path)["fit"] == "unfit"
    node["nvml"] = {"unmeasured": "NVML did not answer within 20 s"}
    node["gpus"][5]["links"][4]["state"] = 1
    assert looks(tmp_path)["fit"] != "fit"
    node["units"]["vllm@0.service"]["active"] = "inactive"
    found = looks(tmp_path)
    assert (found["running"], found["fit"], found["bandwidth"]) == ([], None, None)


def test_bandwidth_is_as_its_worst_finding() -> None:
    for statuses, word in (
        (["pass", "fail", "unmeasured"], "fail"),
        (["pass", "unmeasured"], "unmeasured"),
        (["pass", "waived"], "pass"),
    ):
        found = tuple(Finding("s", Status(one), check="bandwidth.peer") for one in statuses)
        other = Finding("s", Status.FAIL, check="nvlink.links")
        assert look.of_bandwidth(Verdict((*found, other))) == word


def test_nothing_that_hangs_is_sound(node: State, tmp_path: Path) -> None:
    node["gpus"][5]["links"][4]["state"] = 0
    looks(tmp_path, 2)
    for key in ("nvml", "gpus", "p2p"):
        node[key] = {"unmeasured": "NVML did not answer within 20 s"}
    assert [f["confirmed"] for f in looks(tmp_path, 5)["faults"]] == [True]
