"""Hosts that cannot be reached, changed their key, die or hang, and installations that fail.

One run over six nodes, five of them lost, each in its own way: each is named, the rest finish. The
next run finds a fault of the installation on each that is back, the last one completes them. The
node that nothing ails lets no root in: all is done to it as a user with sudo.
"""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import ROOT, Outcome, command, deploy, on
from tests.lab import node_faults
from tests.lab.hardware.image import USER
from tests.lab.supply import kernels

# One hung command may take this long; what else a stage does needs a tenth of it.
HUNG_S = 60
LIMITS = ("--data", f"stage_timeout_s={HUNG_S}")
# A lab node is back from a reboot in seconds.
BACK_S = 20
WELL = "b200-1"
LOST = ("b200-2", "b200-3", "b200-4", "b200-5", "b200-6")
BACK = tuple(name for name in LOST if name != "b200-3")


def snapshot(name: str) -> str:
    """A digest of what a deployment would write on a node."""
    trees = "/etc /var/lib/apt /var/lib/dpkg /usr/local"
    return on(name, f"find {trees} -type f -exec sha256sum {{}} + | sort | sha256sum")


@pytest.fixture(scope="module")
def unsigned(boot: Boot) -> tuple[Outcome, str, str]:
    """What ready.py says where nobody pinned the key of the packages, and the node around it.

    Six fresh nodes are there from then on.
    """
    boot("image-ordinary-user", *["healthy"] * len(LOST))
    lab.publish_vendor(key="other")
    before, asked, after = snapshot(WELL), deploy("ready.py", "--limit", WELL), snapshot(WELL)
    lab.publish_vendor()
    return asked, before, after


@pytest.fixture(scope="module")
def run(unsigned: object) -> Outcome:
    """Five of the nodes are lost, each in its own way."""
    lab.unplug("b200-2")
    lab.new_host_key("b200-3")
    lab.block_mirror("b200-6")
    watcher = threading.Thread(target=_lose_two_in_the_middle)
    watcher.start()
    outcome = deploy("b200.py", *LIMITS)
    watcher.join()
    return outcome


def _lose_two_in_the_middle() -> None:
    """Cut the power of one node and freeze another as soon as the driver is being installed."""
    for name, act in (("b200-4", lab.kill), ("b200-5", lab.freeze)):
        _wait_until_installing(name)
        act(name)


def _wait_until_installing(name: str) -> None:
    watched = "until [ -e /var/log/b200kit-apt.log ]; do sleep 0.02; done"
    lab.run(name, ["sh", "-c", watched])


def test_repository_of_another_key_is_named_before_a_change(
    unsigned: tuple[Outcome, str, str],
) -> None:
    asked, before, after = unsigned
    assert (asked.code, asked.outcome(WELL)) == (1, "not ready"), asked.said[-3000:]
    error = asked.host(WELL)["error"]
    assert "NO_PUBKEY" in error or "not signed" in error, error
    assert after == before


def test_the_others_finish_and_the_run_fails(run: Outcome) -> None:
    assert run.code == 1
    assert run.outcome(WELL) == "live", run.described(WELL)


def test_nobody_but_the_user_with_sudo_ever_entered_the_node_that_lets_no_root_in(
    run: Outcome,
) -> None:
    log = on(WELL, "journalctl -o cat --no-pager -t sshd")
    assert f"Accepted publickey for {USER} " in log
    assert "Accepted publickey for root" not in log
    places = "/etc /usr /opt /srv /var/lib /run/b200kit"
    owned = f"find {places} -xdev -user {USER} -not -path '/var/lib/systemd/*'"
    assert on(WELL, owned) == ""


def test_host_without_a_cable_is_unreachable(run: Outcome) -> None:
    assert run.outcome("b200-2") == "unreachable", run.described("b200-2")


def test_host_with_another_key_is_refused_as_such(run: Outcome) -> None:
    record = run.host("b200-3")
    assert record["outcome"] == "unreachable"
    assert "host key" in record["error"].lower(), run.described("b200-3")
    assert record["commands"] == 0


@pytest.mark.parametrize("name", ["b200-4", "b200-5"])
def test_host_lost_in_the_middle_failed_at_the_stage_it_was_in(run: Outcome, name: str) -> None:
    record = run.host(name)
    assert record["outcome"] == "failed", run.described(name)
    assert record["stage"] in ("host", "driver"), run.described(name)


def test_hung_host_is_told_from_a_dead_one(run: Outcome) -> None:
    assert f"no answer in {HUNG_S} s" in run.host("b200-5")["error"], run.described("b200-5")
    assert "connection lost" in run.host("b200-4")["error"], run.described("b200-4")


def test_failed_list_can_be_given_back(run: Outcome) -> None:
    assert run.directory is not None
    listed = (run.directory / "failed.txt").read_text().split()
    assert listed == list(LOST)


def test_node_without_a_route_says_so(run: Outcome) -> None:
    record = run.host("b200-6")
    assert (record["outcome"], record["stage"]) == ("failed", "ready"), run.described("b200-6")
    assert "connect" in record["error"] or "unreachable" in record["error"], record["error"]


def limits() -> list[str]:
    """The arguments of a run over those that are back."""
    return [word for name in BACK for word in ("--limit", name)]


@pytest.fixture(scope="module")
def hurt(run: Outcome) -> Outcome:
    """Those that are back: one cannot build its module, one stays off after the reboot, one has
    another host key from then on, and on one dpkg is killed in the middle of its work.
    """
    lab.plug("b200-2")
    lab.power_on("b200-4")
    lab.thaw("b200-5")
    lab.unblock_mirror("b200-6")
    node_faults.dkms_fails("b200-2")
    node_faults.stays_off("b200-4")
    node_faults.other_key_after_reboot("b200-5")
    node_faults.dkms_hangs("b200-6")
    killer = threading.Thread(target=node_faults.kill_dpkg_in_build, args=("b200-6", 600))
    killer.start()
    outcome = deploy("b200.py", *limits(), *LIMITS, "--data", f"reboot_deadline_s={BACK_S}")
    killer.join()
    return outcome


def test_failed_build_names_kernel_compiler_and_log(hurt: Outcome) -> None:
    message = hurt.described("b200-2")
    assert hurt.host("b200-2")["stage"] == "driver", message
    assert f"DKMS could not build nvidia 580.126.20 for kernel {kernels.running()}" in message
    assert node_faults.COMPILER_SAYS in message
    assert "/var/lib/dkms/nvidia/580.126.20/build/make.log" in message


def test_node_that_does_not_come_back_is_named_with_its_console(hurt: Outcome) -> None:
    message = hurt.described("b200-4")
    assert hurt.host("b200-4")["stage"] == "reboot", message
    assert f"did not come back within {BACK_S} s of its reboot (refuses connections)" in message
    assert "look at the lab's log of the host" in message
    assert "Traceback" not in hurt.said


def test_other_host_key_after_the_reboot_is_named_and_never_accepted(hurt: Outcome) -> None:
    record = hurt.host("b200-5")
    assert record["stage"] == "reboot", hurt.described("b200-5")
    assert "came back from its reboot with another host key" in record["error"]
    assert record["stages"][-1]["name"] == "reboot"


def test_installation_that_was_killed_says_what_it_left(hurt: Outcome) -> None:
    message = hurt.described("b200-6")
    assert hurt.host("b200-6")["stage"] == "driver", message
    assert "cut short" in message
    assert "nvidia-kernel-open-dkms (iF)" in message


def test_rerun_after_the_causes_are_gone_completes(hurt: Outcome) -> None:
    node_faults.dkms_builds("b200-2")
    node_faults.comes_back("b200-4")
    node_faults.pinned_key_again("b200-5")
    node_faults.dkms_builds("b200-6")
    back = deploy("b200.py", *limits())
    assert {name: back.outcome(name) for name in BACK} == dict.fromkeys(BACK, "live")
    assert back.code == 0, back.said[-3000:]
    stages = {stage["name"]: stage["changes"] for stage in back.host("b200-6")["stages"]}
    assert any("finish what dpkg left" in change for change in stages["host"]), stages


def test_two_runs_at_once_do_not_share_a_node(run: Outcome) -> None:
    with subprocess.Popen(
        command("b200.py", "--limit", "b200-1", "--data", "smoke_always=True"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        for line in holder.stdout:
            if "Starting operation: Smoke" in line:
                break
        # It stands still with the node's lock, so that it cannot end before the other begins.
        holder.send_signal(signal.SIGSTOP)
        second = deploy("b200.py", "--limit", "b200-1")
        holder.send_signal(signal.SIGCONT)
        holder.stdout.read()
    assert holder.returncode == 0
    assert second.code == 1
    assert "has been working on this node since" in second.host("b200-1")["error"]
