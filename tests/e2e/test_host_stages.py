"""Clock and logs, and the store for models: real mkfs, mount and logrotate on a simulated node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.inventory.keys.storage import filesystem_uuid
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, cursor, deploy, on, remote_commands

NODE = "b200-1"
DISK = "/dev/disk/by-id/lab-disk"
STORE = {"mount": "/srv/store", "disks": [DISK]}
UUID = filesystem_uuid([DISK])
# /dev is a new one at every boot.
PLUG = """[Unit]
DefaultDependencies=no
Before=srv-store.mount
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/bin/plug-disk
[Install]
WantedBy=multi-user.target
"""


def run(storage: dict[str, Any], entry: str = "b200.py") -> Outcome:
    """A run whose inventory asks for this store."""
    return deploy(entry, "--data", f"storage={json.dumps(storage)}")


@pytest.fixture(scope="module")
def disk(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node with a disk on which somebody has data; its name on this machine.

    There is no udev in a container: the links that it would make are made by hand.
    """
    live(1)
    on(NODE, "journalctl --flush")
    image = tmp_path_factory.mktemp("disk") / "image"
    subprocess.run(["truncate", "-s", "256M", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "data", image], check=True)
    attach = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    number = Path("/sys/class/block", Path(device).name, "dev").read_text().strip().split(":")
    script = (
        f"#!/bin/sh\nmknod {device} b {number[0]} {number[1]}\n"
        "mkdir -p /dev/disk/by-id /dev/disk/by-uuid\n"
        f"ln -s {device} {DISK}\nln -s {device} /dev/disk/by-uuid/{UUID}\n"
    )
    on(NODE, f"printf '{script}' > /usr/local/bin/plug-disk && chmod 755 /usr/local/bin/plug-disk")
    on(NODE, f"printf '{PLUG}' > /etc/systemd/system/plug-disk.service")
    on(NODE, "systemctl enable --now plug-disk.service")
    yield device
    on(NODE, "umount /srv/store")
    subprocess.run(["losetup", "--detach", device], check=True)


@pytest.fixture(scope="module")
def refused(disk: str) -> Outcome:
    """A run that must not touch the disk."""
    return run(STORE)


@pytest.fixture(scope="module")
def stored(refused: Outcome) -> Outcome:
    """The run after the commands of the refusals, the last for what a killed run left half made."""
    message = refused.described(NODE)
    for left in (None, f"mkfs.ext4 -q -F -L b200-making -U {UUID} {DISK}"):
        if left:
            on(NODE, left)
            message = run(STORE).described(NODE)
            assert "is not blank, it has ext4 'b200-making'" in message
        on(NODE, message.partition("as root: ")[2].splitlines()[0])
    return run(STORE)


def test_disk_with_data_is_refused_before_anything_is_done_to_it(
    refused: Outcome,
) -> None:
    message = refused.described(NODE)
    assert refused.host(NODE)["stage"] == "storage", message
    assert f"{DISK} is not blank, it has ext4 'data': nothing was changed" in message


@pytest.mark.long
def test_disk_and_mount_that_are_not_there_are_named(refused: Outcome) -> None:
    gone = run({"mount": "/srv/store", "disks": ["/dev/disk/by-id/none"]})
    assert "/dev/disk/by-id/none: there is no such disk" in gone.described(NODE)
    without = run({"mount": "/srv/store"})
    assert "/srv/store is not a mount of its own" in without.described(NODE)


def test_disk_that_was_wiped_by_the_commands_becomes_the_store(stored: Outcome) -> None:
    assert stored.code == 0, stored.said[-3000:]
    stage = next(s for s in stored.host(NODE)["stages"] if s["name"] == "storage")
    assert stage["changes"][0] == f"make ext4 on {DISK}"
    label = on(NODE, f"wipefs --no-act --json {DISK}")
    assert json.loads(label)["signatures"][0]["label"] == "b200-models"


def test_model_lies_on_the_store_and_is_served_from_it(stored: Outcome) -> None:
    assert on(NODE, "stat -fc %T /srv/store") == "ext2/ext3"
    assert on(NODE, "ls /srv/store/tiny-llama/*/.complete")
    assert "noatime" in on(NODE, "findmnt -no OPTIONS /srv/store")
    assert on(NODE, "stat -c %U:%G:%a /srv/store") == "root:root:755"
    assert on(NODE, "systemctl show -P RequiresMountsFor vllm@0.service").split()[0] != ""


@pytest.mark.long
def test_second_run_changes_nothing_with_two_commands(stored: Outcome) -> None:
    before = cursor(NODE)
    again = run(STORE)
    assert again.code == 0, again.said[-2000:]
    assert again.host(NODE)["changes"] == 0, again.host(NODE)["stages"]
    assert remote_commands(NODE, before) == 2


@pytest.mark.long
def test_store_that_is_not_mounted_is_unfit_and_mounted_again(stored: Outcome) -> None:
    on(NODE, "systemctl stop vllm.target 'vllm@*' && systemctl stop srv-store.mount")
    checked = run(STORE, "check.py")
    assert checked.code == 1
    assert "nothing is mounted at /srv/store" in checked.stdout
    again = run(STORE)
    stage = next(s for s in again.host(NODE)["stages"] if s["name"] == "storage")
    assert stage["changes"][0] == "enable srv-store.mount", again.said[-3000:]
    assert on(NODE, "ls /srv/store/tiny-llama/*/.complete")


def test_logrotate_of_the_node_accepts_its_settings(stored: Outcome) -> None:
    done = lab.run(NODE, ["logrotate", "-d", "/etc/logrotate.conf"])
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    assert "/var/log/fabricmanager.log" in done.stderr


def test_log_that_is_kept_open_is_cut_and_goes_on(stored: Outcome) -> None:
    log = "/var/log/b200kit-held.log"
    write = f"exec 3>>{log}; echo before >&3; logrotate -f /etc/logrotate.conf; echo after >&3"
    on(NODE, write)
    assert on(NODE, f"cat {log}") == "after"
    assert on(NODE, f"cat {log}.1") == "before"


def test_journal_has_its_limit(stored: Outcome) -> None:
    message = on(NODE, "journalctl -b -u systemd-journald -o cat --no-pager | grep -o 'max 4.0G'")
    assert message.splitlines()[-1] == "max 4.0G"
