"""Room on /boot before an installation that makes an initramfs."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.converge import disk_space
from tests.messages import assert_message
from tests.subtests import in_subtests

MB = 1_000_000
DRIVER = ["nvidia-open", "nvidia-fabricmanager"]


def state(own: Any = True, largest: Any = 60 * MB, free: Any = 100 * MB) -> dict[str, Any]:
    """What of an observation decides."""
    return {
        "boot": {"own_file_system": own, "largest_initramfs_bytes": largest},
        "disks": {"/boot": {"total_bytes": 500 * MB, "free_bytes": free}},
    }


def test_full_boot_is_refused_with_figures_and_remedy() -> None:
    message = disk_space.shortage(DRIVER, state())
    assert_message(message)


@in_subtests(
    "seen",
    [
        state(free=120 * MB),
        state(own=False),
        state(largest=None),
        state(largest={"unmeasured": "x"}),
        state(own={"unmeasured": "x"}),
        state(free={"unmeasured": "x"}),
        {},
        {"boot": {"unmeasured": "x"}, "disks": {"unmeasured": "x"}},
    ],
)
def test_boot_with_room_or_not_read_is_not_refused(seen: dict[str, Any]) -> None:
    assert disk_space.shortage(DRIVER, seen) == ""


@pytest.mark.parametrize("name", ["numactl", "nvidia-container-toolkit", "nvlsm", "haproxy"])
def test_package_that_makes_no_initramfs_needs_no_room_there(name: str) -> None:
    assert disk_space.shortage([name], state()) == ""


@pytest.mark.parametrize("name", ["nvidia-open", "nvidia-kernel-open-dkms", "linux-headers-6.1.0"])
def test_package_that_makes_one_does(name: str) -> None:
    assert disk_space.shortage([name], state()) != ""
