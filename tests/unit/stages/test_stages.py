"""Stages plan exactly what differs, in the order it must happen, and nothing where all is right."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.node.client.smoke_result import SmokeResult
from b200kit.node.lib.documents import structure
from b200kit.node.state import drift
from b200kit.node.state.drift import PENDING_REBOOT
from b200kit.operations.reboot import reasons
from b200kit.run.node import Node, StageFailed
from b200kit.run.remote import RemoteError
from b200kit.stages import gate, pipeline, serving, smoke
from tests.fake.machine import READINESS, Machine, measured
from tests.messages import assert_message, raises_message
from tests.unit import smoke_results
from tests.unit.nodes import (
    bare,
    connected,
    look,
    make,
    planned,
    planned_by_stage,
    provide,
    settled,
)

Spoil = Callable[[Machine], None]
REPLICA = "/etc/vllm/replica-1.yaml"
UNIT = "/etc/systemd/system/vllm@.service"
RECORD = "/var/lib/b200kit/smoke.json"


def test_settled_node_needs_no_change_and_no_reboot(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    assert planned_by_stage(node) == {}
    assert reasons(node) == []
    assert machine.log == []


def test_bare_node_gets_sources_before_packages(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    write, install = planned(node, "host")
    assert write.startswith("write /etc/apt/sources.list.d/b200kit-vendor.sources")
    assert install == "install numactl, python3-venv, kmod, g++, python3-dev"


@pytest.mark.parametrize("done", [True, False, None])
def test_first_boot_is_waited_for_before_anything_is_written(
    tmp_path: Path, done: bool | None
) -> None:
    node, machine = bare(tmp_path)
    machine.readings["readiness"] = {**READINESS, "first_boot_done": done}
    machine.answers["cloud-init status --wait"] = (True, "status: done")
    look(node)
    first, *_ = planned(node, "host")
    assert first.startswith("wait until cloud-init") is (done is False)
    make(node, "host")
    waits = machine.ran("cloud-init status --wait")
    writes = machine.ran("node.pyz put")
    assert bool(waits) is (done is False)
    assert not waits or machine.log.index(waits[0]) < machine.log.index(writes[0])


def test_first_boot_that_does_not_end_ends_the_run_before_a_change(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.readings["readiness"] = {**READINESS, "first_boot_done": False}
    machine.answers["cloud-init status --wait"] = (False, "")
    look(node)
    with raises_message(RemoteError):
        make(node, "host")
    assert "/etc/apt/sources.list.d/b200kit-vendor.sources" not in machine.files


def test_bare_node_gets_the_pin_before_what_it_pins(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    preferences, pin, lockstep, enable = planned(node, "driver")
    assert preferences.startswith("write /etc/apt/preferences.d/b200kit.pref, /etc/systemd/system/")
    assert pin == "install nvidia-driver-pinning-580.105.08"
    assert_message(lockstep)
    assert enable == "enable nvidia-persistenced.service, nvidia-fabricmanager.service"


def test_older_branch_has_its_number_in_the_package_names(tmp_path: Path) -> None:
    node, _ = bare(tmp_path, driver="575.57.08")
    assert "nvidia-fabricmanager-575 575.57.08" in planned(node, "driver")[2]


def test_bare_node_gets_cdi_after_the_toolkit(tmp_path: Path) -> None:
    node, _ = bare(tmp_path)
    install, generate = planned(node, "containers")
    assert install.startswith("install nvidia-container-toolkit 1.20.0-1, ")
    assert_message(generate)


def test_bare_node_gets_the_gate_without_starting_it(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    make(node, "gate unit")
    assert machine.ran("systemctl enable b200-gate.service")
    assert machine.ran("systemctl start") == []


@pytest.mark.parametrize("name", ["serving", "warm-up", "gateway", "smoke"])
def test_stages_that_serve_need_to_see_the_gpus(tmp_path: Path, name: str) -> None:
    node, _ = bare(tmp_path)
    with raises_message(StageFailed):
        planned(node, name)


def fit(folder: Path) -> tuple[Node, Machine]:
    """A node with driver and gate, on which nothing serves yet."""
    machine = Machine(folder)
    machine.loaded = "580.105.08"
    node = connected(machine)
    look(node)
    for name in ("host", "driver", "fabric", "containers", "gate unit"):
        provide(machine, node, name)
    look(node)
    machine.log.clear()
    return node, machine


def test_fit_node_gets_files_users_target_and_engine_in_this_order(tmp_path: Path) -> None:
    node, _ = fit(tmp_path)
    write, users, target, engine = planned(node, "serving")
    assert write.startswith("write /etc/b200kit/secrets/api_key, /etc/b200kit/engine-requirements")
    assert users.strip() == "sysusers"
    assert target == "enable vllm.target"
    assert_message(engine)


def test_serving_stage_starts_nothing(tmp_path: Path) -> None:
    node, machine = fit(tmp_path)
    make(node, "serving")
    assert machine.ran("systemctl (start|restart)") == []


def test_replicas_start_together_and_the_gateway_follows(tmp_path: Path) -> None:
    node, machine = fit(tmp_path)
    for name in ("serving", "warm-up", "gateway"):
        make(node, name)
    [started] = machine.ran("systemctl start vllm@")
    assert "systemctl start vllm@0.service vllm@1.service" in started
    assert machine.log.index(started) < machine.log.index(machine.ran("start haproxy")[0])


def test_every_stage_converges_in_one_pass_whatever_the_start(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    for stage in pipeline.stages(before=pipeline.PipelineCheckpoint.REBOOT):
        make(node, stage.name)
    assert_message(*reasons(node))
    machine.execute("systemd-run --quiet --on-active=1 systemctl reboot")
    look(node)
    for stage in pipeline.stages():
        make(node, stage.name)
    assert planned_by_stage(node) == {}
    assert reasons(node) == []


def stopped(unit: str) -> Spoil:
    """A unit does not run."""
    return lambda machine: machine.units[unit].update(active="failed")


MEASURE = {"smoke": ["measure TTFT, ITL, TPOT and E2E", "check the node, which proves it"]}
BOTH = ["restart vllm@0.service", "restart vllm@1.service"]


@pytest.mark.parametrize(
    ("path", "restarts"),
    [(REPLICA, BOTH[1:]), (UNIT, BOTH), ("/etc/b200kit/secrets/api_key", BOTH)],
)
def test_changed_configuration_restarts_its_replicas_one_by_one_at_the_warm_up(
    tmp_path: Path, path: str, restarts: list[str]
) -> None:
    node, machine = settled(tmp_path)
    machine.write(path, b"old", 0o600 if "secrets" in path else 0o644)
    look(node)
    assert planned_by_stage(node) == {"serving": [f"write {path}"], "warm-up": restarts}
    make(node, "serving")
    assert planned_by_stage(node) == {"warm-up": restarts}
    make(node, "warm-up")
    assert planned_by_stage(node) == MEASURE
    assert len(machine.ran("node.pyz rolling-restart ")) == len(restarts)


def test_marker_is_on_the_node_before_the_file_that_owes_it(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(REPLICA, b"old")
    look(node)
    make(node, "serving")
    assert drift.pending_marker("restart:vllm@1.service") in machine.files


def test_act_that_fails_keeps_its_marker_and_tells_the_journal(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(drift.pending_marker("reload:haproxy.service"))
    machine.answers = {
        "reload-or-restart": (False, "Job for haproxy.service failed"),
        "journalctl": (True, "[ALERT] config : parsing [/etc/haproxy/haproxy.cfg:12]"),
    }
    look(node)
    with pytest.raises(RemoteError, match=r"reload:haproxy.service: .*haproxy.cfg:12"):
        make(node, "gateway")
    assert drift.pending_marker("reload:haproxy.service") in machine.files


def test_replica_that_does_not_get_warm_is_stopped_and_says_why(tmp_path: Path) -> None:
    node, machine = fit(tmp_path)
    make(node, "serving")
    machine.answers = {
        "systemctl start vllm": (False, "Job for vllm@0.service failed"),
        "is-active": (False, ""),
        "journalctl": (True, "ValueError: Free memory on device is less than desired"),
    }
    with raises_message(RemoteError):
        make(node, "warm-up")
    assert machine.ran(r"systemctl stop vllm@0\.service vllm@1\.service")


@pytest.mark.parametrize("kind", [1, 2])
def test_fabric_in_progress_is_waited_for_even_when_all_units_run(
    tmp_path: Path, kind: int
) -> None:
    node, machine = settled(tmp_path)
    machine.hardware["gpus"][5]["fabric"]["state"] = kind
    look(node)
    assert_message(*planned(node, "fabric"))


def test_reboot_marker_leads_to_a_reboot(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.write(PENDING_REBOOT)
    look(node)
    assert reasons(node) == ["boot-time configuration changed"]


def test_other_loaded_driver_leads_to_a_reboot(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.loaded = "580.95.05"
    look(node)
    assert_message(*reasons(node))


def test_withdrawing_a_node_stops_what_runs_and_only_that(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    stopped("vllm@1.service")(machine)
    machine.units["vllm@0.service"]["active"] = "activating"
    look(node)
    machine.log.clear()
    running = ["b200-agent.service", "haproxy.service", "vllm.target", "vllm@0.service"]
    assert gate.withdraw(node) == running
    assert machine.log == [f"systemctl stop {' '.join(running)}"]


def test_withdrawing_a_node_that_never_served_runs_no_command(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.log.clear()
    assert gate.withdraw(node) == []
    assert machine.log == []


def other_replica_process(machine: Machine) -> None:
    """Systemd restarted a replica."""
    machine.start("vllm@1.service")


def booted_again(machine: Machine) -> None:
    """The node was rebooted, and its servers are the same in all but that."""
    machine.boots += 1


def other_cuda(machine: Machine) -> None:
    """The same driver with another CUDA."""
    machine.hardware["nvml"]["cuda_driver_version"] = "13.1"


def gpu_on_another_node(machine: Machine) -> None:
    """The layout becomes another one."""
    for device in machine.hardware["pci"]["gpus"]:
        device["numa_node"] = 1 - device["numa_node"]


@pytest.mark.parametrize(
    "change", [other_replica_process, booted_again, other_cuda, gpu_on_another_node]
)
def test_another_state_is_measured_again(tmp_path: Path, change: Spoil) -> None:
    node, machine = settled(tmp_path)
    change(machine)
    look(node)
    assert planned(node, "smoke") == MEASURE["smoke"]


@pytest.mark.parametrize(
    "changes",
    [
        {"max_num_seqs": 16},
        {"gateway_port": 9000},
        {"model_revision": "ba9876543210fedc" * 4},
        {"smoke": {"requests": 5}},
        {"smoke_always": True},
    ],
)
def test_another_configuration_is_measured_again(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    node, machine = settled(tmp_path)
    other = connected(machine, **changes)
    look(other)
    assert planned(other, "smoke") == MEASURE["smoke"]
    assert planned(node, "smoke") == []


def test_slow_load_is_given_the_time_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, machine = settled(tmp_path)
    other = connected(machine, smoke={"requests": 60, "rate": 0.1, "direct_requests": 24})
    look(other)
    asked: list[float] = []

    def noted(_: object, arguments: str, stdin: str | None = None, timeout: float = 0) -> None:
        asked.append(timeout)
        raise RemoteError(arguments)

    monkeypatch.setattr(type(other.connected()), "attempt_program", noted)
    with pytest.raises(RemoteError):
        make(other, "smoke")
    assert asked[0] > (60 + 24 * len(other.layout())) / 0.1


@pytest.mark.parametrize("changes", [{"stage_timeout_s": 60}, {"console": "ipmi"}])
def test_what_does_not_touch_the_servers_is_not_measured_again(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    _, machine = settled(tmp_path)
    other = connected(machine, **changes)
    look(other)
    assert planned(other, "smoke") == []


def test_last_result_is_shown_with_its_age(tmp_path: Path) -> None:
    node, _ = settled(tmp_path)
    assert planned(node, "smoke") == []
    assert node.record.smoke is not None
    assert node.record.smoke.verdict == "pass"
    assert node.record.smoke_age_s is not None


@pytest.mark.parametrize("verdict", ["fail", "invalid"])
def test_result_that_did_not_pass_is_kept_and_never_accepted(tmp_path: Path, verdict: str) -> None:
    node, machine = settled(tmp_path)
    result = measured() | {"verdict": verdict, "reasons": ["TTFT P99 is 900 ms"]}
    machine.answers = {"node.pyz measure": (False, json.dumps(result))}
    del machine.files[RECORD]
    look(node)
    with raises_message(StageFailed):
        make(node, "smoke")
    assert RECORD in machine.files
    look(node)
    assert planned(node, "smoke") == MEASURE["smoke"]


def test_measurement_that_is_none_says_why(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    machine.answers = {"node.pyz measure": (False, "no answer from http://127.0.0.1:8000")}
    del machine.files[RECORD]
    look(node)
    with raises_message(RemoteError):
        make(node, "smoke")


def test_summary_tells_each_metric_under_its_own_name() -> None:
    found = smoke_results.document({"main.ttft": {"n": 60, "p50_ms": 12.34}})
    assert_message(smoke.summary(structure(SmokeResult, found)))


@pytest.mark.parametrize(
    ("taken_at", "known"),
    [("", False), ("yesterday", False), ("2026-01-01T00:00:00Z", True)],
)
def test_age_of_a_result_is_unknown_rather_than_invented(taken_at: str, known: bool) -> None:
    assert (smoke.age_s(smoke_results.result({"taken_at": taken_at})) is not None) is known


def test_secrets_are_written_for_root_alone_and_named_by_no_change(tmp_path: Path) -> None:
    node, machine = fit(tmp_path)
    stages = [stage.desired(node, node.layout()) for stage in pipeline.stages()]
    files = {file.path: file for desired in stages for file in desired.files}
    for name in ("api_key", "hf_token"):
        file = files[f"{serving.SECRETS}/{name}"]
        assert (file.mode, file.owner, file.secret) == (0o600, "root:root", True)
    for stage in pipeline.stages():
        make(node, stage.name)
    said = "\n".join(machine.log) + json.dumps(node.to_json())
    assert not re.search("canary-(api-key|hf-token)", said)


def test_replicas_no_longer_asked_for_give_their_gpus_back_first(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, replicas=4, tensor_parallel=2)
    node.spec = node.spec.replace(replicas=2)
    look(node)
    plan = planned(node, "serving")
    assert plan[:2] == ["remove vllm@2.service", "remove vllm@3.service"]
    for change in serving.plan(node)[:2]:
        change.apply(node)
    look(node)
    assert not [what for what in planned(node, "serving") if what.startswith("remove ")]
    assert machine.units["vllm@3.service"]["active"] == "inactive"


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [((4, 2), (2, 4), "vllm@1.service"), ((2, 4), (4, 2), "vllm@0.service, vllm@1.service")],
)
def test_replicas_end_before_others_get_their_gpus(
    tmp_path: Path, before: tuple[int, int], after: tuple[int, int], held: str
) -> None:
    node, machine = settled(tmp_path, replicas=before[0], tensor_parallel=before[1])
    node.spec = node.spec.replace(replicas=after[0], tensor_parallel=after[1])
    look(node)
    assert_message(planned(node, "serving")[0])
    make(node, "serving")
    look(node)
    assert_message(planned(node, "warm-up")[0])
    machine.log.clear()
    make(node, "warm-up")
    [stopped] = machine.ran("systemctl stop .*haproxy.service")
    [started] = machine.ran("systemctl start vllm@0.service")
    assert machine.log.index(stopped) < machine.log.index(started)
    look(node)
    assert planned(node, "serving") == planned(node, "warm-up") == []
    given = [gpu for n in range(after[0]) for gpu in machine.given[f"vllm@{n}.service"]]
    assert len(set(given)) == len(given) == 8


@pytest.mark.parametrize(
    ("listed", "floor", "why"),
    [
        (
            "vllm0        UP           0 requests",
            1,
            r"vllm0 is in rotation \(min_available 1\)",
        ),
        ("vllm0        DRAIN        3 requests", 0, "vllm0 answers 3 requests"),
        ("vllm0        no check     0 requests", None, "vllm0 is in rotation"),
    ],
)
def test_replicas_of_other_gpus_do_not_end_under_a_client(
    tmp_path: Path, listed: str, floor: int | None, why: str
) -> None:
    node, machine = settled(tmp_path, replicas=4, tensor_parallel=2)
    node.spec = node.spec.replace(replicas=2, tensor_parallel=4, min_available=floor)
    look(node)
    machine.answers = {"node.pyz rotation list": (True, f"{listed}\nn02 UP 9 requests\n")}
    machine.log.clear()
    with pytest.raises(StageFailed, match=why):
        make(node, "serving")
    assert not machine.ran("systemctl (stop|start|restart)|node.pyz put")


def test_where_the_gateway_is_stopped_nobody_is_cut_off(tmp_path: Path) -> None:
    # As after a change of GPUs that was broken off: its socket answers no more.
    node, machine = settled(tmp_path, replicas=4, tensor_parallel=2)
    node.spec = node.spec.replace(replicas=2, tensor_parallel=4, min_available=1)
    look(node)
    refused = (False, "HAProxy's admin socket: Connection refused")
    machine.answers = {"node.pyz rotation list": refused}
    with pytest.raises(RemoteError, match="Connection refused"):
        make(node, "serving")
    machine.answers |= {"systemctl is-active haproxy": (False, "inactive\n")}
    make(node, "serving")


def test_client_that_came_while_the_files_were_written_is_not_cut_off(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, replicas=4, tensor_parallel=2)
    node.spec = node.spec.replace(replicas=2, tensor_parallel=4, min_available=0)
    look(node)
    make(node, "serving")
    look(node)
    machine.answers = {"node.pyz rotation list": (True, "vllm1        UP           1 requests\n")}
    machine.log.clear()
    with pytest.raises(StageFailed, match="vllm1 answers 1 requests"):
        make(node, "warm-up")
    assert not machine.ran("systemctl (stop|start|restart)")


def test_replicas_that_nobody_needs_may_end_for_others(tmp_path: Path) -> None:
    node, machine = settled(tmp_path, replicas=4, tensor_parallel=2)
    node.spec = node.spec.replace(replicas=2, tensor_parallel=4, min_available=0)
    look(node)
    message = "vllm0        UP           0 requests\nvllm1        DOWN 1/2     0 requests\n"
    machine.answers = {"node.pyz rotation list": (True, message)}
    make(node, "serving")
    assert machine.ran("systemctl stop vllm@2.service")
