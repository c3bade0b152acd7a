"""Disks as sysfs, procfs and libblkid show them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import storage
from tests.messages import assert_message

MOUNTINFO = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw shared:2 - proc proc rw
24 22 259:1 / /boot/efi rw shared:3 - vfat /dev/nvme0n1p1 rw
25 22 9:127 / /srv/models rw,noatime shared:4 - ext4 /dev/md127 rw
26 22 0:40 / /mnt/with\\040blank rw - nfs4 10.0.0.9:/models rw
"""
SWAPS = """\
Filename\t\t\t\tType\t\tSize\tUsed\tPriority
/dev/sda2                               partition\t999420\t0\t-2
"""
# As Linux writes it (drivers/md/md.c, status_seq_show); broken since 5.4 (raid0 and linear).
MDSTAT = """\
Personalities : [raid0] [linear] [raid1]
md127 : active raid0 nvme2n1[1] nvme1n1[0]
      7500960768 blocks super 1.2 512k chunks

md126 : broken raid0 sdb[1](F) sdc[0]
      1953260544 blocks super 1.2 512k chunks

md125 : inactive sdd[1](S)
      976630488 blocks super 1.2

md124 : active (auto-read-only) raid1 sde1[1](W)(F) sdf1[0]
      4189184 blocks super 1.2 [2/1] [_U]

unused devices: <none>
"""
DISKS = {
    "nvme0n1": ("259:0", ["nvme0n1p1", "nvme0n1p2"], []),
    "nvme1n1": ("259:3", [], ["md127"]),
    "sda": ("8:0", ["sda1", "sda2"], []),
    "sdb": ("8:16", [], []),
}
PARTS = {"nvme0n1p1": "259:1", "nvme0n1p2": "259:2", "sda1": "8:1", "sda2": "8:2"}
HELD = {"sda1": ["dm-0"]}


def block(sys: Path, name: str, number: str, held: list[str]) -> Path:
    """A device below /sys/class/block."""
    folder = sys / "block" / name
    (folder / "holders").mkdir(parents=True)
    (folder / "size").write_text("2048\n")
    (folder / "ro").write_text("0\n")
    for holder in held:
        (folder / "holders" / holder).mkdir()
    (sys / "dev").mkdir(exist_ok=True)
    (sys / "dev" / number).symlink_to(f"../block/{name}")
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a system disk, a member of an array, and a disk with LVM and swap."""
    for name, (number, parts, held) in DISKS.items():
        folder = block(tmp_path, name, number, held)
        for part in parts:
            # A disk has its partitions as folders, and each stands in the class by itself.
            (folder / part).mkdir()
            (folder / part / "partition").write_text("1\n")
            block(tmp_path, part, PARTS[part], HELD.get(part, []))
    block(tmp_path, "md127", "9:127", [])
    block(tmp_path, "dm-0", "253:0", [])
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(MOUNTINFO)
    (proc / "swaps").write_text(SWAPS)
    (proc / "mdstat").write_text(MDSTAT)
    for constant, value in (("BLOCK", "block"), ("NUMBERS", "dev"), ("PROC", "proc")):
        monkeypatch.setattr(storage, constant, tmp_path / value)
    monkeypatch.setattr(storage, "signatures", lambda device: [])
    monkeypatch.setattr(storage, "blank", lambda device: True)
    monkeypatch.setattr(os.path, "exists", lambda path: Path(path).name in DISKS)
    monkeypatch.setattr(os.path, "realpath", lambda path: str(path))
    return tmp_path


def test_disk_of_the_system_is_known_by_what_is_mounted_from_it(machine: Path) -> None:
    disk = storage.disk("/dev/nvme0n1")
    assert disk is not None
    assert disk["mounts"] == ["/", "/boot/efi"]
    assert disk["partitions"] == ["/dev/nvme0n1p1", "/dev/nvme0n1p2"]
    assert disk["system"] is True
    assert disk["size_bytes"] == 2048 * 512


def test_member_of_an_array_has_its_holder_and_where_that_is_mounted(machine: Path) -> None:
    disk = storage.disk("/dev/nvme1n1")
    assert disk is not None
    assert (disk["holders"], disk["mounts"]) == (["/dev/md127"], ["/srv/models"])
    assert disk["system"] is False


def test_volume_on_a_partition_and_swap_are_found(machine: Path) -> None:
    disk = storage.disk("/dev/sda")
    assert disk is not None
    assert disk["holders"] == ["/dev/dm-0"]
    assert disk["mounts"] == ["[SWAP]"]
    assert disk["system"] is True


def test_blank_disk_has_nothing(machine: Path) -> None:
    disk = storage.disk("/dev/sdb")
    assert disk is not None
    assert not any(disk[key] for key in ("holders", "mounts", "partitions", "system", "read_only"))


def test_disk_that_is_not_there_is_null(machine: Path) -> None:
    assert storage.disk("/dev/sdz") is None


def test_what_is_no_disk_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reading = storage.storage({"mount": "/", "disks": [str(tmp_path / "file")]})
    assert_message(reading["disks"][str(tmp_path / "file")]["unmeasured"])


def test_mount_is_told_by_its_device(machine: Path) -> None:
    mount = storage.mount("/srv/models")
    assert mount == {"device": "/dev/md127", "fstype": "ext4", "options": "rw,noatime"}
    assert storage.mount("/srv") is None
    blank = storage.mount("/mnt/with blank")
    assert blank is not None
    assert blank["device"] == "10.0.0.9:/models"


def test_arrays_have_state_level_and_members() -> None:
    found = storage.parse_mdstat(MDSTAT)
    assert found["/dev/md127"] == {
        "state": "active",
        "level": "raid0",
        "members": {"/dev/nvme2n1": "ok", "/dev/nvme1n1": "ok"},
    }
    assert found["/dev/md126"]["state"] == "broken"
    assert found["/dev/md126"]["members"]["/dev/sdb"] == "faulty"
    assert (found["/dev/md125"]["state"], found["/dev/md125"]["level"]) == ("inactive", None)
    assert found["/dev/md125"]["members"] == {"/dev/sdd": "spare"}
    assert found["/dev/md124"]["members"]["/dev/sde1"] == "write-mostly, faulty"


def test_kernel_without_md_has_no_arrays(machine: Path) -> None:
    (machine / "proc/mdstat").unlink()
    assert storage.arrays() == {}


def test_names_that_a_mount_would_hide_are_counted(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert storage.entries(tmp_path) == 1
    assert storage.entries(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"signatures": []}', []),
        ("", []),
        (
            '{"signatures": [{"device": "sdb", "offset": "0x438", "type": "ext4",'
            ' "uuid": "u", "label": ""}]}',
            [{"type": "ext4", "uuid": "u", "label": None}],
        ),
    ],
)
def test_signatures_are_those_of_wipefs(
    text: str, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "command", lambda argv: text)
    assert storage.signatures("/dev/sdb") == expected


@pytest.mark.skipif(not shutil.which("wipefs"), reason="needs util-linux")
def test_real_wipefs_of_a_real_file_system(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    assert storage.signatures(str(image)) == []
    assert storage.blank(str(image)) is True
    content = bytearray(image.read_bytes())
    # swap's signature at the end of the first page, version 1, one page, a label.
    content[4086:4096] = b"SWAPSPACE2"
    content[1024:1032] = (1).to_bytes(4, "little") + (255).to_bytes(4, "little")
    image.write_bytes(content)
    [found] = storage.signatures(str(image))
    assert found["type"] == "swap", json.dumps(found)
    assert storage.blank(str(image)) is False
