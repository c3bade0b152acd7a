"""Faults while the stack is installed: one clear line each, the others finish, a re-run completes.

Four runs over five nodes, a fault of its own on each; what is repaired after a run, the next
completes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tests.lab as lab
from b200kit.operations import reboot
from tests.e2e.driving import Outcome, deploy, on
from tests.lab import node_faults
from tests.lab.supply import kernels

pytestmark = pytest.mark.long

# A lab node is back in seconds; half of a command's limit is how long a lock is waited for.
LIMITS = (
    *("--data", "reboot_deadline_s=20"),
    *("--data", "stage_timeout_s=50"),
)
RUNNING = kernels.running()
BOOT = "/boot"


@pytest.fixture(scope="module")
def nodes(boot: Callable[..., Any]) -> Iterator[None]:
    """Five fresh nodes; the site is put right afterwards."""
    boot(*["healthy"] * 5)
    yield
    lab.publish_vendor()


@pytest.fixture(scope="module")
def first(nodes: None) -> Outcome:
    """One healthy; a build that fails, a node that stays off, an old kernel, and a held lock."""
    node_faults.dkms_fails("b200-2")
    node_faults.stays_off("b200-3")
    node_faults.boots_old_kernel("b200-4")
    node_faults.hold_dpkg_lock("b200-5")
    return deploy("b200.py", *LIMITS)


def test_the_healthy_node_finishes_among_them(first: Outcome) -> None:
    assert first.code == 1
    assert first.outcome("b200-1") == "live", first.described("b200-1")


def test_failed_build_names_kernel_compiler_and_log(first: Outcome) -> None:
    message = first.described("b200-2")
    assert first.host("b200-2")["stage"] == "driver", message
    assert f"DKMS could not build nvidia 580.126.20 for kernel {RUNNING}" in message
    assert node_faults.COMPILER_SAYS in message
    assert "/var/lib/dkms/nvidia/580.126.20/build/make.log" in message


def test_node_that_does_not_come_back_is_named_with_its_console(first: Outcome) -> None:
    message = first.described("b200-3")
    assert first.host("b200-3")["stage"] == "reboot", message
    # Its network is still there, so its ports are closed; a real node would not answer.
    assert "did not come back within 20 s of its reboot (refuses connections)" in message
    assert "look at the lab's log of the host" in message
    assert "Traceback" not in first.said


def test_waiting_for_a_reboot_says_for_whom_how_long_and_what_it_sees(first: Outcome) -> None:
    said = [line for line in first.stderr.splitlines() if "waiting for b200-3 after reboot" in line]
    assert said, first.stderr[-3000:]
    # How far it is with its shutdown at that moment is the machine's affair.
    seen = (reboot._NO_ANSWER, reboot._REFUSES, reboot._SAME_BOOT)
    assert said[-1].endswith(tuple(f" s, {what}" for what in seen)), said


def test_boot_into_the_old_kernel_names_both_kernels_and_grub(first: Outcome) -> None:
    message = first.described("b200-4")
    assert first.host("b200-4")["stage"] == "reboot", message
    assert f"booted kernel {RUNNING}" in message
    assert f"is built for {kernels.NEWER}; look at GRUB's default entry" in message


def test_lock_of_dpkg_is_waited_for_and_its_holder_named(first: Outcome) -> None:
    message = first.described("b200-5")
    assert first.host("b200-5")["stage"] == "host", message
    assert "holds the lock of dpkg, for 25 s and longer" in message
    assert "python3 -c" in message


@pytest.fixture(scope="module")
def same_again(first: Outcome) -> Outcome:
    """Nothing was repaired on the node that booted the old kernel."""
    before = on("b200-4", "cat /proc/sys/kernel/random/boot_id")
    outcome = deploy("b200.py", "--limit", "b200-4", *LIMITS)
    assert on("b200-4", "cat /proc/sys/kernel/random/boot_id") == before
    return outcome


def test_node_that_a_reboot_did_not_help_is_not_rebooted_again(same_again: Outcome) -> None:
    message = same_again.described("b200-4")
    assert same_again.host("b200-4")["stage"] == "reboot", message
    assert f"booted kernel {RUNNING}" in message
    assert "did not help and nothing changed since" in message


@pytest.fixture(scope="module")
def wrong_signature(same_again: Outcome) -> Outcome:
    """Another key signs the vendor's packages, on a node that has a good index of before."""
    lab.publish_vendor(key="other")
    lab.run("b200-1", ["apt-mark", "unhold", "nvlsm"])
    outcome = deploy("b200.py", "--limit", "b200-1", *LIMITS)
    lab.publish_vendor()
    return outcome


def test_old_good_index_does_not_hide_a_wrong_signature(wrong_signature: Outcome) -> None:
    message = wrong_signature.described("b200-1")
    assert wrong_signature.host("b200-1")["stage"] == "ready", message
    assert "NO_PUBKEY" in message or "not signed" in message, message
    assert "/apt/vendor" in message


@pytest.fixture(scope="module")
def second(wrong_signature: Outcome) -> Outcome:
    """All is repaired but on one node, whose disk is full in the middle."""
    node_faults.dkms_builds("b200-2")
    node_faults.comes_back("b200-3")
    node_faults.boots_right_kernel("b200-4")
    node_faults.rebuild_module("b200-4")
    node_faults.release_dpkg_lock("b200-5")
    lab.small_disk("b200-5", "/usr/lib/firmware", 1)
    return deploy("b200.py", *LIMITS)


@pytest.mark.parametrize("name", ["b200-1", "b200-2", "b200-3", "b200-4"])
def test_mended_node_is_completed_by_the_next_run(second: Outcome, name: str) -> None:
    assert second.outcome(name) == "live", second.described(name)


def test_disk_that_is_full_in_the_middle_is_named(second: Outcome) -> None:
    message = second.described("b200-5")
    assert second.host("b200-5")["stage"] == "driver", message
    assert "no disk space on /usr/lib/firmware (1 MB in all)" in message


@pytest.fixture(scope="module")
def third(second: Outcome) -> Outcome:
    """dpkg is killed on one, /boot too small on one and full in the middle on one; another key."""
    for name in ("b200-2", "b200-3", "b200-4"):
        lab.reset_host(name)
    node_faults.other_key_after_reboot("b200-4")
    node_faults.dkms_hangs("b200-2")
    _small_boot("b200-3", initramfs=3)
    lab.large_disk("b200-5", "/usr/lib/firmware")
    _small_boot("b200-5", initramfs=1)
    node_faults.large_initramfs("b200-5", 12)
    killer = threading.Thread(target=node_faults.kill_dpkg_in_build, args=("b200-2",))
    killer.start()
    outcome = deploy("b200.py", *LIMITS)
    killer.join()
    return outcome


def _small_boot(name: str, initramfs: int) -> None:
    """A /boot of 8 MB with the running kernel and an initramfs of some MB on it."""
    lab.small_disk(name, BOOT, 8)
    image = f"{BOOT}/initrd.img-{RUNNING}"
    on(name, f"touch {BOOT}/vmlinuz-{RUNNING}; head -c {initramfs}M /dev/zero > {image}")


def test_installation_that_was_killed_says_what_it_left(third: Outcome) -> None:
    message = third.described("b200-2")
    assert third.host("b200-2")["stage"] == "driver", message
    assert "cut short" in message
    assert "nvidia-kernel-open-dkms (iF)" in message


def test_boot_known_to_be_too_small_is_refused_before_the_installation(third: Outcome) -> None:
    message = third.described("b200-3")
    assert third.host("b200-3")["stage"] == "ready", message
    assert re.search(r"no disk space on /boot: \d MB free, and \d MB are needed", message), message
    assert "Nothing was changed" in message
    assert on("b200-3", "dpkg -l nvidia-open 2>/dev/null | grep -c ^.i") == "0"


def test_boot_that_gets_full_in_the_middle_is_named(third: Outcome) -> None:
    message = third.described("b200-5")
    assert third.host("b200-5")["stage"] == "driver", message
    assert "no disk space on /boot (8 MB in all)" in message


def test_other_host_key_after_the_reboot_is_named_and_never_accepted(third: Outcome) -> None:
    record = third.host("b200-4")
    assert record["stage"] == "reboot", third.described("b200-4")
    assert "came back from its reboot with another host key" in record["error"]
    assert record["stages"][-1]["name"] == "reboot"


def test_node_without_a_fault_has_nothing_to_do_meanwhile(third: Outcome) -> None:
    assert third.outcome("b200-1") == "live", third.described("b200-1")
    assert third.host("b200-1")["changes"] == 0
    assert third.host("b200-1")["commands"] == 2


def _large_boot(name: str) -> None:
    """The host's own /boot again, with what was written to the small one."""
    on(name, f"cp -a {BOOT} /root/boot")
    lab.large_disk(name, BOOT)
    on(name, f"cp -a /root/boot/. {BOOT}")


@pytest.fixture(scope="module")
def fourth(third: Outcome) -> Outcome:
    """All is repaired."""
    node_faults.dkms_builds("b200-2")
    node_faults.pinned_key_again("b200-4")
    for name in ("b200-3", "b200-5"):
        _large_boot(name)
    return deploy("b200.py", *LIMITS)


@pytest.mark.parametrize("name", ["b200-2", "b200-3", "b200-4", "b200-5"])
def test_what_was_left_half_done_is_completed(fourth: Outcome, name: str) -> None:
    assert fourth.outcome(name) == "live", fourth.described(name)


def test_interrupted_dpkg_was_finished_by_its_own_change(fourth: Outcome) -> None:
    stages = {stage["name"]: stage["changes"] for stage in fourth.host("b200-2")["stages"]}
    assert any("finish what dpkg left" in change for change in stages["host"]), stages


def test_every_node_lives_in_the_end(fourth: Outcome) -> None:
    assert fourth.code == 0, fourth.said[-3000:]
