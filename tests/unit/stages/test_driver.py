"""The driver stage: what it asks apt for, leaves out, stops, and takes away."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from b200kit.operations import dry_run
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.stages import gate, pipeline
from b200kit.stages.support.driver_packages import PERSISTENCED
from tests.fake.machine import Machine
from tests.messages import assert_message
from tests.unit.nodes import DRIVER, bare, connected, look, make, planned, settled
from tests.unit.run.test_templates import directives
from tests.unit.specs import VENDOR_FINGERPRINT

MISSING = "libnvsdm"


def driver_plan(node: Node) -> list[str]:
    """What the stage would change."""
    return planned(node, "driver")


def upgrade(machine: Machine, **changes: Any) -> Node:
    """The same machine asked to be of a later version."""
    node = connected(machine, driver="580.126.20", **changes)
    look(node)
    return node


def without(folder: Path) -> tuple[Node, Machine]:
    """A node on which the driver stage ran while no repository had libnvsdm."""
    node, machine = bare(folder)
    machine.missing_packages = [MISSING]
    make(node, "host")
    make(node, "driver")
    return node, machine


def test_optional_package_that_apt_lacks_is_left_out_and_said(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.missing_packages = [MISSING]
    make(node, "host")
    stage = next(stage for stage in pipeline.stages() if stage.name == "driver")
    message = [change.apply(node) for change in stage.plan(node) if "nvidia-open" in change.what]
    assert_message(*message)


def test_what_apt_lacks_is_not_asked_for_by_every_later_run(tmp_path: Path) -> None:
    node, machine = without(tmp_path)
    assert MISSING not in machine.packages
    assert driver_plan(node) == []


# As Ubuntu's packages have it (nvidia-compute-utils-535 and later).
_UBUNTU = """[Unit]
StopWhenUnneeded=true
[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
"""
_DROP_IN = f"/etc/systemd/system/{PERSISTENCED}.d/b200kit.conf"


def test_static_persistence_daemon_is_enabled_by_the_drop_in(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    make(node, "driver")
    root = tmp_path / "root"
    for path, text in (
        (f"/usr/lib/systemd/system/{PERSISTENCED}", _UBUNTU),
        (_DROP_IN, machine.text(_DROP_IN)),
    ):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_text(text)
    asked = [
        ["systemctl", f"--root={root}", verb, PERSISTENCED] for verb in ("enable", "is-enabled")
    ]
    done = [subprocess.run(a, capture_output=True, text=True, check=False) for a in asked]
    assert [one.returncode for one in done] == [0, 0]
    assert done[1].stdout == "enabled\n"


def test_persistence_daemon_keeps_the_mode_on_and_runs_though_nobody_needs_it(
    tmp_path: Path,
) -> None:
    node, machine = bare(tmp_path)
    make(node, "driver")
    given = directives(machine.text(_DROP_IN))
    assert given["StopWhenUnneeded"] == ["no"]
    assert given["ExecStart"] == ["", "/usr/bin/nvidia-persistenced --persistence-mode --verbose"]


def test_persistence_daemon_that_runs_is_restarted_with_its_drop_in(tmp_path: Path) -> None:
    node, machine = settled(tmp_path)
    del machine.files[_DROP_IN]
    look(node)
    make(node, "driver")
    assert machine.ran(f"systemctl restart {PERSISTENCED}")


@pytest.mark.parametrize(
    "changes",
    [
        {"repositories": [("vendor", "https://other.example.internal/apt/")]},
        {"driver": "580.126.20"},
    ],
    ids=["another repository", "another version"],
)
def test_other_sources_or_version_are_reasons_to_ask_again(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    _, machine = without(tmp_path)
    if "repositories" in changes:
        [(name, url)] = changes["repositories"]
        key = {"key": str(tmp_path / "vendor.asc"), "fingerprint": VENDOR_FINGERPRINT}
        changes = {"repositories": [{"name": name, "url": url, **key}]}
    other = connected(machine, **changes)
    look(other)
    assert any(MISSING in what for what in driver_plan(other))


def test_it_is_installed_once_a_repository_has_it_and_the_set_changes(tmp_path: Path) -> None:
    _, machine = without(tmp_path)
    machine.missing_packages = []
    node = upgrade(machine)
    make(node, "driver")
    assert machine.packages[MISSING]["version"] == "580.126.20-1"


def test_what_is_left_out_is_not_judged(tmp_path: Path) -> None:
    node, _ = without(tmp_path)
    asked = gate.expectation(node)["driver"]
    assert list(asked["left_out"]) == [MISSING]
    assert_message(asked["left_out"][MISSING])
    assert MISSING not in asked["packages"]
    assert asked["packages"]["nvidia-fabricmanager"] == DRIVER


@pytest.mark.parametrize("record", ["nonsense", {"missing": 3}, {"missing": {f"{MISSING}": 1}}])
def test_record_that_makes_no_sense_leaves_nothing_out(tmp_path: Path, record: Any) -> None:
    node, machine = without(tmp_path)
    machine.write("/var/lib/b200kit/packages.json", json.dumps(record).encode())
    look(node)
    assert driver_plan(node) == [f"install {MISSING} {DRIVER}"]


def test_upgrade_fetches_then_stops_what_serves_then_replaces(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = upgrade(machine)
    preferences, pin, fetch, stop, install = driver_plan(node)
    assert preferences == "write /etc/apt/preferences.d/b200kit.pref"
    assert pin == (
        f"remove nvidia-driver-pinning-{DRIVER}; install nvidia-driver-pinning-580.126.20"
    )
    assert_message(fetch)
    assert stop.startswith(
        "stop b200-agent.service, haproxy.service, vllm.target, vllm@0.service, "
    )
    assert f"nvidia-open {DRIVER}-1 -> 580.126.20" in install


def test_upgrade_on_a_node_where_nothing_runs_stops_nothing(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    for unit in machine.units.values():
        unit["active"] = "inactive"
    assert not [what for what in driver_plan(upgrade(machine)) if what.startswith("stop")]


def test_units_that_were_not_read_are_taken_to_serve(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = upgrade(machine)
    assert node.state is not None
    node.state["units"] = {"unmeasured": "systemctl timed out"}
    assert any(
        what.startswith("stop b200-agent.service, haproxy.service, vllm.target")
        for what in driver_plan(node)
    )


def test_nothing_is_stopped_when_the_packages_cannot_be_had(tmp_path: Path) -> None:
    _, machine = settled(tmp_path)
    node = upgrade(machine)
    machine.answers = {'"fetch_only": true': (False, "E: Failed to fetch")}
    with pytest.raises(RemoteError, match="Failed to fetch"):
        make(node, "driver")
    assert machine.ran("systemctl stop") == []
    assert machine.is_active("vllm@0.service")


@pytest.mark.parametrize(
    ("spoil", "stops"),
    [
        ({"hold": False}, False),
        ({"status": "iF"}, False),
        ({"version": "580.95.05-1"}, True),
    ],
)
def test_only_an_exchange_stops_what_serves(
    tmp_path: Path, spoil: dict[str, Any], stops: bool
) -> None:
    node, machine = settled(tmp_path)
    machine.packages["libnvidia-nscq"].update(spoil)
    look(node)
    assert any(what.startswith("stop ") for what in driver_plan(node)) is stops


def test_tools_are_installed_where_asked_for_and_dcgm_is_enabled(tmp_path: Path) -> None:
    node, machine = bare(tmp_path, dcgm="4.4.1", cuda_toolkit="12-8")
    make(node, "host")
    make(node, "driver")
    assert machine.packages["datacenter-gpu-manager-4-cuda13"]["hold"] is True
    assert "cuda-toolkit-12-8" in machine.packages
    assert machine.units["nvidia-dcgm.service"]["enabled"] == "enabled"
    assert not machine.is_active("nvidia-dcgm.service")


def test_single_gpu_gets_no_fabric_manager(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    node = connected(machine)
    look(node)
    object.__setattr__(node.spec, "hardware", "single")
    plan = " ".join(driver_plan(node))
    assert "nvidia-open" in plan
    assert not [name for name in ("fabricmanager", "nscq", "nvsdm", "nvlsm") if name in plan]


@pytest.mark.parametrize(
    ("active", "driver", "ended"),
    [
        ("activating", "580.126.20", True),
        ("activating", DRIVER, False),
        ("active", "580.126.20", False),
    ],
)
def test_gate_that_still_waits_for_the_driver_of_before_is_ended(
    tmp_path: Path, active: str, driver: str, ended: bool
) -> None:
    _, machine = settled(tmp_path)
    machine.units["b200-gate.service"]["active"] = active
    node = connected(machine, driver=driver)
    look(node)
    message = "stop b200-gate.service, which judges by what was asked before"
    assert (message in planned(node, "gate unit")) is ended


def test_reboot_is_foreseen_for_a_file_that_notifies_one_and_for_another_driver(
    tmp_path: Path,
) -> None:
    node, machine = settled(tmp_path)
    assert dry_run.reboot_changes(node) == []
    stages = pipeline.stages(before=pipeline.PipelineCheckpoint.REBOOT)
    files = [file for stage in stages for file in stage.desired(node, node.layout()).files]
    changed = next(file.path for file in files if "reboot" in file.notify)
    machine.write(changed, b"edited by hand")
    machine.write("/var/lib/b200kit/reboot.json", b'{"took_s": 200.4}')
    look(node)
    node.foreseen = {f"write {changed}": ()}
    [foreseen] = dry_run.reboot_changes(node)
    assert foreseen.what == f"reboot: {changed} changes (the last one took 3 m 20 s)"
    other = upgrade(machine)
    other.foreseen = {"install nvidia-open": ()}
    assert_message(*(change.what for change in dry_run.reboot_changes(other)))


ELSEWHERE = "http://archive.example.internal/ubuntu"


@pytest.mark.parametrize("own", [True, False], ids=["the inventory's", "another archive's"])
def test_build_of_another_archive_is_exchanged_and_nothing_serves_meanwhile(
    tmp_path: Path, own: bool
) -> None:
    node, machine = settled(tmp_path)
    url = node.spec.repositories[0].url.rstrip("/") if own else ELSEWHERE
    origins = {"nvidia-fabricmanager": [url], "nvidia-open": []}
    machine.readings["automatic"] = {"upgrades": "0", "restarts": [], "origins": origins}
    look(node)
    plan = driver_plan(node)
    assert bool(plan) is not own
    if plan:
        assert "nvidia-fabricmanager" in plan[-1]
        assert plan[0] == "fetch the packages of the set"
        assert any(what.startswith("stop ") for what in plan)


def test_kernel_that_boots_next_gets_headers_and_modules_as_the_running_one(tmp_path: Path) -> None:
    node, machine = bare(tmp_path)
    machine.readings["driver_module"] = {
        "running_kernel": "6.8.0-57-generic",
        "built_for": {},
        "default_kernel": "6.11.0-21-generic",
    }
    machine.hardware["modules"]["ib_umad"] = None
    look(node)
    [install] = [what for what in driver_plan(node) if what.startswith("install nvidia-open")]
    for kernel in ("6.8.0-57-generic", "6.11.0-21-generic"):
        assert f"linux-headers-{kernel}" in install
        assert f"linux-modules-extra-{kernel}" in install
    assert "linux-headers-generic-hwe-24.04" in install
