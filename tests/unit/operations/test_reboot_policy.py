"""Would a reboot bring the driver, did it, and may another be tried?"""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.operations import reboot_policy
from tests.messages import assert_message
from tests.subtests import in_subtests

OLD, NEW = "6.1.0-28-amd64", "6.1.0-30-amd64"
DRIVER = "580.126.20"
UNREAD = {"unmeasured": "there is no grub.cfg"}


def state(
    built: Any, default: Any = NEW, running: str = OLD, loaded: Any = None, **notes: Any
) -> dict[str, Any]:
    """What of an observation decides."""
    module = {"running_kernel": running, "built_for": built, "default_kernel": default}
    return {
        "taken_at": "2026-11-21T10:00:00Z",
        "host": {"boot_id": "boot-2"},
        "driver_module": module,
        "modules": {"nvidia": loaded},
        "notes": notes,
    }


@in_subtests(
    ("built", "default"),
    [
        ({OLD: DRIVER, NEW: None}, NEW),
        ({OLD: DRIVER}, NEW),
        ({OLD: DRIVER, NEW: "570.158.01"}, NEW),
        ({OLD: None, NEW: None}, NEW),
        ({OLD: None, NEW: None}, UNREAD),
        ({}, UNREAD),
    ],
)
def test_kernel_without_the_module_is_named_with_dkms_log_and_remedy(
    built: Any, default: Any
) -> None:
    message = reboot_policy.not_built(state(built, default), DRIVER)
    assert_message(message)
    assert DRIVER in message
    assert f"/var/lib/dkms/nvidia/{DRIVER}/build/make.log" in message
    assert "dkms autoinstall" in message


@in_subtests(
    ("built", "default"),
    [
        ({OLD: None, NEW: DRIVER}, NEW),
        ({OLD: DRIVER, NEW: None}, OLD),
        ({OLD: DRIVER, NEW: None}, UNREAD),  # which kernel boots is not known
        ({NEW: {"unmeasured": "modinfo is not there"}}, NEW),
        ({NEW: {"unmeasured": "modinfo is not there"}}, UNREAD),
        ({"unmeasured": "no /lib/modules"}, NEW),
        (None, NEW),
    ],
)
def test_module_that_is_built_or_not_read_refuses_no_reboot(built: Any, default: Any) -> None:
    assert reboot_policy.not_built(state(built, default), DRIVER) == ""


def test_observation_without_the_reading_refuses_no_reboot() -> None:
    assert reboot_policy.not_built({}, DRIVER) == ""
    assert reboot_policy.not_running({}, DRIVER, ()) == ""
    assert reboot_policy.spent({}, DRIVER) == ""


def test_loaded_driver_is_running() -> None:
    assert reboot_policy.not_running(state({OLD: DRIVER}, loaded=DRIVER), DRIVER, ()) == ""


def test_boot_into_the_old_kernel_names_both_and_grub() -> None:
    message = reboot_policy.not_running(state({OLD: None, NEW: DRIVER}), DRIVER, ())
    assert f"booted kernel {OLD}" in message
    assert f"is built for {NEW}" in message
    assert "GRUB" in message


def test_module_that_no_kernel_has_is_told_as_such() -> None:
    message = reboot_policy.not_running(state({OLD: None}), DRIVER, ())
    assert_message(message)


def test_kernel_log_tells_why_a_built_module_is_not_loaded() -> None:
    log = ["x86: y", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"]
    message = reboot_policy.not_running(state({OLD: DRIVER}), DRIVER, log)
    assert_message(message)
    silent = reboot_policy.not_running(state({OLD: DRIVER}), DRIVER, ())
    assert_message(silent)


def test_old_module_that_is_loaded_comes_from_dkms_or_the_initramfs() -> None:
    stale = reboot_policy.not_running(state({OLD: DRIVER}, loaded="570.158.01"), DRIVER, ())
    assert f"update-initramfs -u -k {OLD}" in stale
    other = reboot_policy.not_running(state({OLD: "570.158.01"}, loaded="570.158.01"), DRIVER, ())
    assert_message(other)


@pytest.mark.parametrize("loaded", [True, {"unmeasured": "x"}, 7])
def test_module_of_unknown_version_is_no_failed_reboot(loaded: Any) -> None:
    assert reboot_policy.not_running(state({OLD: DRIVER}, loaded=loaded), DRIVER, ()) == ""


def left(before: dict[str, Any], boot: str = "boot-1", outcome: str = "") -> dict[str, Any]:
    """The note a reboot leaves."""
    return reboot_policy.note({**before, "host": {"boot_id": boot}}, DRIVER, outcome)


def test_reboot_that_did_not_help_is_not_repeated_while_nothing_changed() -> None:
    before = state({OLD: DRIVER})
    assert (
        reboot_policy.spent(state({OLD: DRIVER}, reboot=left(before)), DRIVER) == before["taken_at"]
    )


@pytest.mark.parametrize(
    "now",
    [
        state({OLD: DRIVER, NEW: DRIVER}),  # built since
        state({OLD: DRIVER}, default=OLD),  # GRUB's default changed
    ],
)
def test_change_allows_another_reboot(now: dict[str, Any]) -> None:
    now["notes"] = {"reboot": left(state({OLD: DRIVER}))}
    assert reboot_policy.spent(now, DRIVER) == ""


def test_another_driver_allows_another_reboot() -> None:
    now = state({OLD: DRIVER}, reboot=left(state({OLD: DRIVER})))
    assert reboot_policy.spent(now, "580.159.03") == ""


def test_reboot_that_was_never_made_or_helped_does_not_count() -> None:
    before = state({OLD: DRIVER})
    never = state({OLD: DRIVER}, reboot=left(before, boot="boot-2"))
    assert reboot_policy.spent(never, DRIVER) == ""
    helped = state({OLD: DRIVER}, reboot=left(before, outcome=reboot_policy.LOADED))
    assert reboot_policy.spent(helped, DRIVER) == ""
    assert reboot_policy.spent(state({OLD: DRIVER}, reboot="torn"), DRIVER) == ""
