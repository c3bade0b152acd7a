"""Disks, arrays, boot and the firewall on a kernel of the machine's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from b200kit.inventory.keys.storage import array_uuid, mdadm_uuid
from tests.e2e.driving import Outcome
from tests.vm.conftest import DATA, DISKS, Deployed
from tests.vm.driving import Machine

SOMEBODYS = "/dev/disk/by-id/virtio-B200DATA"
SYSTEM = "/dev/disk/by-path/pci-0000:00:01.0"


@pytest.fixture(scope="session")
def before(vm: Machine) -> None:
    """Somebody's file system, before any run."""
    vm.on(
        f"mkfs.ext4 -q -F -L data {SOMEBODYS} && mount {SOMEBODYS} /mnt && "
        "echo precious > /mnt/file && umount /mnt"
    )


@pytest.fixture(scope="session")
def stored(before: None, deployed: Deployed) -> Outcome:
    """The one run from a bare system to serving, with two NVMe disks; it reboots after storage."""
    return deployed.outcome


def store(*disks: str) -> dict[str, Any]:
    """Inventory data of another store."""
    return {**DATA, "storage": {"mount": "/srv/other", "disks": [*disks]}}


def test_two_disks_are_an_array_with_the_models_on_it(vm: Machine, stored: Outcome) -> None:
    assert stored.code == 0, stored.said[-3000:]
    uuid = array_uuid(DISKS)
    assert uuid is not None
    assert f"UUID={mdadm_uuid(uuid)}" in vm.on("mdadm --detail --scan")
    assert "raid0" in vm.on("cat /proc/mdstat")
    assert vm.on("findmnt -nro FSTYPE,OPTIONS /srv/models").startswith("ext4 rw,noatime")
    assert vm.on("ls /srv/models/tiny-llama/*/.complete")


def test_it_is_there_again_after_a_boot(vm: Machine, stored: Outcome) -> None:
    # The run itself rebooted after it had made the store, and served from it afterwards.
    vm.on("touch /srv/models/kept")
    vm.reboot()
    assert vm.on("ls /srv/models/kept") == "/srv/models/kept"
    assert vm.on("ls /dev/md/b200-models") == "/dev/md/b200-models"
    assert vm.on("systemctl list-units --failed --no-legend '*.mount'") == ""


def test_disk_with_data_is_refused_and_its_data_stays(vm: Machine, stored: Outcome) -> None:
    refused = vm.deploy(data=store(SOMEBODYS))
    message = refused.described(vm.name)
    assert f"{SOMEBODYS} is not blank, it has ext4 'data': nothing was changed" in message
    assert vm.on(f"mount -r {SOMEBODYS} /mnt && cat /mnt/file; umount /mnt") == "precious"


def test_disk_in_use_is_refused(vm: Machine, stored: Outcome) -> None:
    for disk in (SYSTEM, DISKS[0]):
        refused = vm.deploy(data=store(disk))
        assert f"{disk} is in use" in refused.described(vm.name)


def test_array_that_was_stopped_is_assembled_and_mounted(vm: Machine, stored: Outcome) -> None:
    vm.on("systemctl stop vllm.target 'vllm@*' srv-models.mount; mdadm --stop /dev/md/b200-models")
    # Not asked: what the run measures at its end. How late an emulator is depends on its machine.
    again = vm.deploy(data=DATA)
    storage = next(s for s in again.host(vm.name)["stages"] if s["name"] == "storage")
    assert storage["changes"][0] == "assemble /dev/md/b200-models", again.said[-3000:]
    assert vm.on("ls /srv/models/kept") == "/srv/models/kept"
    assert vm.on("systemctl is-active vllm@0 vllm@1").split() == ["active"] * 2


def test_rules_are_in_the_kernel_from_boot_on(vm: Machine, stored: Outcome) -> None:
    rules = json.loads(vm.on("nft -j list table inet b200kit"))["nftables"]
    assert any(item.get("chain", {}).get("policy") == "drop" for item in rules)
    order = vm.on("systemctl show -P Before b200-firewall.service")
    assert "network-pre.target" in order.split()


def test_rules_come_back_after_nftables_flushed_everything(vm: Machine, stored: Outcome) -> None:
    vm.on("systemctl start nftables && systemctl restart nftables")
    # systemd restarts ours behind it, in a job of its own.
    vm.on("until nft list table inet b200kit >/dev/null 2>&1; do sleep 0.5; done", timeout=60)
    vm.on("systemctl disable --now nftables; systemctl start b200-firewall")


def test_time_servers_are_asked(vm: Machine, stored: Outcome) -> None:
    assert vm.on("systemctl is-active systemd-timesyncd") == "active"
    servers = vm.on("timedatectl show-timesync --property=SystemNTPServers --value")
    assert servers == " ".join(DATA["time_servers"]), servers


def test_lost_disk_is_named_and_blocks(vm: Machine, stored: Outcome) -> None:
    """Last: the machine has one disk less from here on."""
    vm.on("echo 1 > /sys/block/$(basename $(readlink -f " + DISKS[1] + "))/device/device/remove")
    checked = vm.deploy("check.py", data=DATA)
    assert checked.code == 1
    assert f"disk {DISKS[1]} is gone" in checked.stdout
