"""Settings of the operating system on a node: all off, set with the one reboot, drifted, repaired.

The node is a container: tests/lab/inventory.py and docs/lab.md say which settings it cannot show.
The run that sets them comes after others whose controller was killed, each in a stage that was at
work; all other stages are killed at night, by test_killed_controller.py.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

import tests.lab as lab
from b200kit.catalog import load
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands
from tests.e2e.tools.killing import AT_WORK, kill_in, leftovers

NODE = "b200-1"
# What a run with nothing to do costs: one observation, and the lock given back.
FEWEST = 2
# In force as the kernel says it; what only a boot brings stands in /proc/cmdline.
IN_FORCE = {
    "cat /proc/sys/kernel/numa_balancing": "0",
    "cat /proc/sys/vm/swappiness": "1",
    "cat /proc/sys/vm/zone_reclaim_mode": "0",
    "cat /proc/sys/vm/max_map_count": "1048576",
    "cat /proc/sys/net/core/somaxconn": "4096",
    "cat /proc/sys/kernel/panic_on_oops": "1",
    "cat /proc/sys/kernel/panic": "10",
    "cat /proc/sys/vm/nr_hugepages": "0",
    "cat /sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor | sort -u": "performance",
    "tail -n +2 /proc/swaps": "",
    "systemctl is-enabled swap.target": "masked",
    "systemctl is-active b200-acs.service": "active",
    "cat /sys/module/nouveau/initstate 2>/dev/null": "",
    "grep -ow -e iommu=pt -e pci=realloc=on -e init_on_alloc=0 -e numa_balancing=disable "
    "/proc/cmdline": "iommu=pt\npci=realloc=on\ninit_on_alloc=0\nnuma_balancing=disable",
}


def off(outcome: Outcome) -> set[str]:
    """The settings that a verdict has against the node."""
    findings = outcome.host(NODE)["verdict"]["findings"]
    bad = [finding for finding in findings if finding["status"] == "fail"]
    return {f["part"] for f in bad if f["check"] == "host.settings"} | {
        name
        for name, setting in load.load().settings.items()
        if setting.judged_by in {finding["check"] for finding in bad}
    }


@pytest.fixture(scope="module")
def before(boot: Callable[..., Any]) -> Outcome:
    """What check.py says of a node on which everything is off."""
    boot("settings-off")
    return deploy("check.py")


@pytest.fixture(scope="module")
def killed(before: Outcome) -> dict[str, int]:
    """How runs over the node ended, by the stage in which each was killed."""
    on(NODE, "journalctl --flush")
    return {stage: kill_in(stage, NODE) for stage in AT_WORK}


@pytest.fixture(scope="module")
def first(killed: dict[str, int]) -> Outcome:
    """The run that was allowed to end, with everything set."""
    return deploy()


def test_node_without_a_driver_is_bare(before: Outcome) -> None:
    assert (before.code, before.outcome(NODE)) == (3, "bare"), before.described(NODE)


def test_node_is_live_after_exactly_one_reboot(first: Outcome) -> None:
    assert first.outcome(NODE) == "live", first.described(NODE)
    assert on(NODE, "cat /var/lib/b200-lab/boots") == "2"


def test_runs_that_were_killed_left_nothing_half_done_or_twice(
    killed: dict[str, int], first: Outcome
) -> None:
    assert killed == dict.fromkeys(AT_WORK, -signal.SIGKILL)
    assert first.outcome(NODE) == "live", first.described(NODE)
    assert leftovers(NODE) == ""
    log = on(NODE, "cat /var/log/dpkg.log")
    assert len(re.findall(r" install nvidia-open:\S+ <none> 580\.126\.20-1", log)) == 1
    # By the API server alone: its core and worker have names of their own.
    assert on(NODE, "pgrep -cx vllm") == "2"


@pytest.mark.parametrize("command", IN_FORCE)
def test_setting_is_in_force_after_the_reboot(first: Outcome, command: str) -> None:
    assert on(NODE, command) == IN_FORCE[command]


def test_limits_that_a_container_cannot_raise_are_neither_set_nor_judged(
    first: Outcome,
) -> None:
    assert on(NODE, "grep -v '^#' /etc/security/limits.d/60-b200kit.conf") == ""
    findings = first.host(NODE)["verdict"]["findings"]
    message = {finding["part"]: finding["summary"] for finding in findings}
    assert message["memlock"] == "setting memlock is not applicable here"


def test_no_bridge_redirects_after_the_reboot(first: Outcome) -> None:
    gpus = first.host(NODE)["state"]["pci"]["gpus"]
    assert {bridge["acs"] for gpu in gpus for bridge in gpu["bridges"]} == {False}


def test_units_of_the_boot_that_apply_the_drop_ins_did_not_fail(first: Outcome) -> None:
    assert on(NODE, "systemctl --failed --no-legend") == ""


def test_second_run_changes_nothing_with_two_commands(first: Outcome) -> None:
    mark = cursor(NODE)
    again = deploy()
    assert again.host(NODE)["changes"] == 0, again.said[-3000:]
    assert remote_commands(NODE, mark) == FEWEST


@pytest.fixture(scope="module")
def drifted(first: Outcome) -> Outcome:
    """What check.py says after somebody changed what is in force, and no file."""
    for line in (
        "sysctl -q -w vm.swappiness=60",
        "echo '[always] madvise never' > /sys/kernel/mm/transparent_hugepage/enabled",
        "echo powersave > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        "swapon -a",
    ):
        lab.run(NODE, ["sh", "-c", line])
    return deploy("check.py")


def test_drift_by_hand_is_found(drifted: Outcome) -> None:
    assert drifted.code == 1
    assert off(drifted) == {"swappiness", "transparent_hugepages", "governor", "swap"}


def test_gate_of_the_node_finds_it_too(drifted: Outcome) -> None:
    program = "python3 -I /usr/local/lib/b200kit/node.pyz gate --expect /etc/b200kit/expect.json"
    message = on(NODE, f"{program} --deadline 0")
    assert "fail: setting swappiness is 60, not 1 (vm.swappiness)" in message


def test_drift_is_mended_without_a_reboot(drifted: Outcome) -> None:
    repaired = deploy()
    assert repaired.outcome(NODE) == "live", repaired.described(NODE)
    stages = {entry["name"]: entry["changes"] for entry in repaired.host(NODE)["stages"]}
    assert stages["settings"] == [
        "sysctl /etc/sysctl.d/99-zz-b200kit.conf",
        "tmpfiles /etc/tmpfiles.d/b200kit.conf",
        "switch swap off",
        "read the settings back",
    ]
    assert on(NODE, "cat /var/lib/b200-lab/boots") == "2"
    assert {command: on(NODE, command) for command in IN_FORCE} == IN_FORCE


@pytest.mark.long
def test_another_choice_that_needs_no_boot_is_made_without_one(first: Outcome) -> None:
    changed = deploy("b200.py", "--data", 'settings={"swappiness": 10}')
    if changed.host(NODE)["outcome"] != "live":
        pytest.fail(changed.described(NODE))
    assert on(NODE, "cat /proc/sys/vm/swappiness") == "10"
    assert on(NODE, "cat /var/lib/b200-lab/boots") == "2"


@pytest.mark.long
def test_node_that_boots_another_way_is_told_and_not_rebooted(first: Outcome) -> None:
    lab.run(NODE, ["umount", "/proc/cmdline"])
    message = deploy()
    assert message.host(NODE)["stage"] == "settings"
    assert "GRUB's configuration has what is asked" in message.described(NODE)
    assert on(NODE, "cat /var/lib/b200-lab/boots") == "2"


@pytest.mark.long
def test_unknown_setting_is_refused_before_anything_is_touched(first: Outcome) -> None:
    mark = cursor(NODE)
    refused = deploy("b200.py", "--data", 'settings={"swapiness": 1}')
    assert refused.code == 1
    message = 'settings.swapiness: unknown setting; did you mean "settings.swappiness"? Nothing was'
    assert message in refused.stderr
    assert remote_commands(NODE, mark) == 0
