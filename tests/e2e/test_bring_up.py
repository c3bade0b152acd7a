"""Nodes stuck on the way to a fabric: each named by its state; once repaired, they come up.

Those whose state systemd itself makes: units that fail, die, are masked, or wait for a module. All
others are judged by the same readers in tests/unit/lab/test_bring_up_judged.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tests.lab as lab
from tests.e2e.driving import Outcome, deploy, ever_started, on, wait_for_boot

pytestmark = pytest.mark.long

DEADLINE_S = 12
HEALTHY = "b200-1"
# Node to its scenario, the state it is stuck in, what is observed there, what else is reported, and
# the finding of the gate.
STUCK = {
    "b200-2": (
        "bring-up-no-mlx5-ib",
        "mlx5",
        "kernel module mlx5_ib is not loaded",
        "Module mlx5_ib not found",
        "reboot: install linux-modules-extra-",
    ),
    "b200-3": (
        "bring-up-nvlsm-dies",
        "subnet manager",
        "nvlsm does not run",
        "nvidia-fabricmanager.service says: ",
        "restart-service: nvidia-fabricmanager.service with a reset of all GPUs",
    ),
    "b200-4": (
        "bring-up-manager-fails",
        "fabric manager",
        "nvidia-fabricmanager.service is not active (failed",
        "says: failed to configure all the available GPUs or NVSwitches",
        "restart-service: nvidia-fabricmanager.service with a reset of all GPUs",
    ),
    "b200-5": (
        "bring-up-manager-masked",
        "fabric manager",
        "nvidia-fabricmanager.service is not active (masked, inactive",
        "",
        "restart-service: nvidia-fabricmanager.service with a reset of all GPUs",
    ),
}
REPAIRED = ("b200-3", "b200-5")


def run(*arguments: str) -> Outcome:
    """A run with a short deadline."""
    words = ("--data", f"fabric_deadline_s={DEADLINE_S}")
    return deploy("b200.py", *words, *arguments)


@pytest.fixture(scope="module")
def first(boot: Callable[..., Any]) -> Outcome:
    """One run over a sound node and those that are stuck."""
    boot("healthy", *(scenario for scenario, *_ in STUCK.values()))
    return run()


def stage(outcome: Outcome, name: str, stage: str) -> dict[str, Any]:
    """The record of a stage of a node."""
    stages = outcome.host(name)["stages"]
    found: dict[str, Any] = next(one for one in stages if one["name"] == stage)
    return found


def test_sound_node_goes_live_beside_the_stuck_ones(first: Outcome) -> None:
    assert first.outcome(HEALTHY) == "live", first.described(HEALTHY)
    assert first.code == 1
    came_up = "fabric nvlsm up, fabric manager 580.126.20, 8 of 8 GPUs completed"
    assert f"{HEALTHY} {came_up}" in " ".join(first.stderr.split())


@pytest.mark.parametrize("name", STUCK)
def test_stuck_node_is_told_by_state_cause_and_remedy_on_one_line(
    first: Outcome, name: str
) -> None:
    _, state, seen, besides, remedy = STUCK[name]
    message = stage(first, name, "fabric")["detail"]
    assert message.startswith(f"stuck at {state}: "), message
    assert seen in message
    assert besides in message
    assert f" -> {remedy}" in message, message
    [line] = [
        line for line in first.stderr.splitlines() if f"{name}  fabric" in line and message in line
    ]
    assert line


@pytest.mark.parametrize("name", STUCK)
def test_gate_refuses_it_by_the_same_cause(first: Outcome, name: str) -> None:
    assert first.outcome(name) == "red", first.described(name)
    assert first.host(name)["stage"] == "gate"
    assert STUCK[name][2] in first.host(name)["error"], first.described(name)


@pytest.mark.parametrize("name", STUCK)
def test_nothing_ever_served_there(first: Outcome, name: str) -> None:
    assert first.code == 1
    assert not ever_started(name, "vllm@0.service")


def test_fabric_manager_is_not_started_before_what_it_needs(first: Outcome) -> None:
    assert first.code == 1
    asked = "journalctl -b -o cat --no-pager -u nvidia-fabricmanager | grep -c ^Starting"
    # By the boot, once; then by nobody, as the modules never came.
    assert on("b200-2", asked) == "1"
    # By the boot, and once more by us.
    assert on("b200-4", asked) == "2"


def test_daemon_that_ended_is_started_by_its_unit(first: Outcome) -> None:
    assert first.outcome(HEALTHY) == "live", first.described(HEALTHY)
    on(HEALTHY, "systemctl stop nvidia-fabricmanager.service")
    again = run("--limit", HEALTHY)
    assert again.outcome(HEALTHY) == "live", again.described(HEALTHY)
    # The node was taken out before: no replica ran beside the reset.
    [started] = stage(again, HEALTHY, "warm-up")["changes"]
    assert started.startswith("start vllm@0.service")
    assert stage(again, HEALTHY, "fabric")["changes"] == [
        "reset the GPUs and start nvidia-fabricmanager.service",
        "bring the fabric up",
    ]
    assert on(HEALTHY, "systemctl is-active nvidia-fabricmanager.service") == "active"
    third = run("--limit", HEALTHY)
    assert (third.host(HEALTHY)["changes"], third.host(HEALTHY)["commands"]) == (0, 2)


def test_units_that_were_laid_down_are_sound(first: Outcome) -> None:
    assert first.outcome(HEALTHY) == "live", first.described(HEALTHY)
    ours = on(
        HEALTHY,
        "cd /etc/systemd/system && ls -d b200-[!l]* vllm* haproxy* 2>/dev/null | grep -v '\\.d$'",
    ).split()
    vendor = on(HEALTHY, "cd /usr/lib/systemd/system && ls nvidia-* | grep -v '@'").split()
    assert {"b200-gate.service", "vllm@.service", "vllm.target"} <= set(ours)
    assert {"nvidia-fabricmanager.service", "nvidia-persistenced.service"} <= set(vendor)
    units = [unit.replace("@.", "@0.") for unit in (*ours, *vendor)]
    verify = ["systemd-analyze", "--man=no", "verify"]
    verified = lab.run(HEALTHY, [*verify, *units])
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    broken = "/run/systemd/system/b200-broken.service"
    on(HEALTHY, f"printf '[Service]\\nExecStart=/no/such/program\\n' > {broken}")
    assert lab.run(HEALTHY, [*verify, broken]).returncode != 0


@pytest.fixture(scope="module")
def after_repair(first: Outcome) -> Outcome:
    """The run after somebody repaired two of the nodes."""
    assert first.code == 1
    before = {name: on(name, "cat /proc/sys/kernel/random/boot_id") for name in REPAIRED}
    for name in REPAIRED:
        lab.set_scenario(name, "healthy")
        lab.run(name, ["systemd-run", "--on-active=1", "systemctl", "reboot"])
    for name in REPAIRED:
        wait_for_boot(name, before[name])
    return run(*(word for name in REPAIRED for word in ("--limit", name)))


@pytest.mark.parametrize("name", REPAIRED)
def test_mended_node_comes_through(after_repair: Outcome, name: str) -> None:
    assert after_repair.outcome(name) == "live", after_repair.described(name)
