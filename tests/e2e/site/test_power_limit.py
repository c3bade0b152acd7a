"""A site's power cap on a running node: set at once, after a reboot, put back, taken back.

The driver is the lab's stand-in, which lets only an administrator set a limit, and forgets it with
each boot and reset.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands, wait_for_boot

pytestmark = pytest.mark.long

NODE = "b200-1"
UNIT = "b200-power.service"
CAP = ("--data", 'settings={"power_limit_w": 700}')
PROGRAM = "python3 -I /usr/local/lib/b200kit/node.pyz"
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def limits(outcome: Outcome) -> set[int]:
    """What the GPUs may draw, in W, as the run read them last."""
    return {gpu["power_enforced_mw"] // 1000 for gpu in outcome.host(NODE)["state"]["gpus"]}


def against_power(outcome: Outcome) -> list[str]:
    """The actions that a verdict asks for about power."""
    findings = outcome.host(NODE)["verdict"]["findings"]
    bad = [f for f in findings if f["check"] == "power.limit" and f["status"] == "fail"]
    return [f["action"] for f in bad]


@pytest.fixture(scope="module")
def capped(live: Live) -> Outcome:
    """The run that caps a node which serves."""
    live(1)
    before = on(NODE, BOOT_ID)
    outcome = deploy("b200.py", *CAP)
    assert outcome.outcome(NODE) == "live", outcome.described(NODE)
    assert on(NODE, BOOT_ID) == before
    return outcome


def test_cap_is_in_force_at_once_and_shown_where_figures_are(capped: Outcome) -> None:
    assert limits(capped) == {700}
    assert on(NODE, f"systemctl is-active {UNIT}") == "active"
    assert "700 W of 1000 W" in capped.stdout
    assert f"power-limit {700}" in on(NODE, f"systemctl cat {UNIT}")


def test_second_run_changes_nothing(capped: Outcome) -> None:
    again = deploy("b200.py", *CAP)
    assert again.host(NODE)["changes"] == 0, again.said[-3000:]


def test_cap_is_set_again_after_a_reboot_before_the_gate(capped: Outcome) -> None:
    before = on(NODE, BOOT_ID)
    on(NODE, "systemctl --no-block reboot")
    wait_for_boot(NODE, before)
    on(NODE, "systemctl start b200-gate.service")
    assert on(NODE, "ls /dev/shm/b200-lab-nvml && systemctl is-active b200-gate.service").endswith(
        "\nactive"
    )
    checked = deploy("check.py", *CAP)
    assert limits(checked) == {700}
    assert against_power(checked) == []


def test_limit_that_somebody_raised_is_found_and_lowered(capped: Outcome) -> None:
    on(NODE, f"{PROGRAM} power-limit default")
    checked = deploy("check.py", *CAP)
    assert (checked.code, against_power(checked)) == (1, ["none"])
    mended = deploy("b200.py", *CAP)
    assert mended.outcome(NODE) == "live", mended.described(NODE)
    assert limits(deploy("check.py", *CAP)) == {700}


def test_restart_of_the_persistence_daemon_sets_it_again(capped: Outcome) -> None:
    on(NODE, f"{PROGRAM} power-limit default; systemctl restart nvidia-persistenced.service")
    waited = (
        f"timeout 60 sh -c 'while systemctl is-active {UNIT} | grep -q ^activating; do :; done'"
    )
    assert on(NODE, f"{waited}; systemctl is-active {UNIT}") == "active"
    assert limits(deploy("check.py", *CAP)) == {700}


def test_cap_that_the_gpus_do_not_take_is_refused_before_anything_is_touched(
    capped: Outcome,
) -> None:
    mark = cursor(NODE)
    refused = deploy("b200.py", "--data", 'settings={"power_limit_w": 1200}')
    assert refused.code == 1
    assert "takes 200 to 1000 W. Nothing was changed" in refused.stderr
    assert remote_commands(NODE, mark) == 0


def test_cap_that_nobody_asked_for_names_the_key(capped: Outcome) -> None:
    checked = deploy("check.py")
    assert (checked.code, against_power(checked)) == (1, ["none"])
    assert "settings.power_limit_w" in " ".join(checked.stdout.split())


def test_key_that_is_gone_gives_the_limit_back(capped: Outcome) -> None:
    outcome = deploy()
    assert outcome.outcome(NODE) == "live", outcome.described(NODE)
    assert on(NODE, f"systemctl is-enabled {UNIT} 2>&1") != "enabled"
    assert limits(deploy("check.py")) == {1000}
