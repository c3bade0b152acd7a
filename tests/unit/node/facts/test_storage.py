"""Disks as sysfs, procfs and libblkid show them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import storage
from b200kit.node.lib.readings import attempt
from tests.messages import assert_message
from tests.subtests import in_subtests

MOUNTINFO = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
23 22 0:21 / /proc rw shared:2 - proc proc rw
24 22 259:1 / /boot/efi rw shared:3 - vfat /dev/nvme0n1p1 rw
25 22 9:127 / /srv/models rw,noatime shared:4 - ext4 /dev/md127 rw
26 22 0:40 / /mnt/with\\040blank rw - nfs4 10.0.0.9:/models rw
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
DISKS = {"nvme0n1": ("259:0", ["nvme0n1p1", "nvme0n1p2"]), "nvme1n1": ("259:3", [])}
PARTS = {"nvme0n1p1": "259:1", "nvme0n1p2": "259:2"}
MADE = [("md127", "9:127", "md"), ("dm-0", "253:0", "dm")]


def block(sys: Path, name: str, number: str) -> Path:
    """A device below /sys/class/block."""
    folder = sys / "block" / name
    folder.mkdir(parents=True)
    (folder / "size").write_text("2048\n")
    (folder / "ro").write_text("0\n")
    (sys / "dev").mkdir(exist_ok=True)
    (sys / "dev" / number).symlink_to(f"../block/{name}")
    return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a system disk, a blank one, an array and a volume."""
    for name, (number, parts) in DISKS.items():
        folder = block(tmp_path, name, number)
        (folder / "device").mkdir()
        for part in parts:
            # A disk has its partitions as folders, and the class links to each of them.
            block(tmp_path, part, PARTS[part]).rename(folder / part)
            (folder / part / "partition").write_text("1\n")
            (tmp_path / "block" / part).symlink_to(f"{name}/{part}")
    for name, number, mark in MADE:
        (block(tmp_path, name, number) / mark).mkdir()
    (tmp_path / "block/dm-0/dm/uuid").write_text("LVM-Qk3n\n")
    proc = tmp_path / "proc"
    (proc / "1").mkdir(parents=True)
    (proc / "1/mountinfo").write_text(MOUNTINFO)
    (proc / "mdstat").write_text(MDSTAT)
    for constant, value in (("BLOCK", "block"), ("NUMBERS", "dev"), ("PROC", "proc")):
        monkeypatch.setattr(storage, constant, tmp_path / value)
    monkeypatch.setattr(storage, "signatures", lambda device: [])
    monkeypatch.setattr(storage, "blank", lambda device: True)
    monkeypatch.setattr(storage, "claimed", lambda device: False)
    known, real = os.path.exists, os.path.realpath
    devices = {*DISKS, *PARTS, *(name for name, *_ in MADE)}
    monkeypatch.setattr(os.path, "exists", lambda p: Path(p).name in devices or known(p))
    there = (str(tmp_path),)
    monkeypatch.setattr(os.path, "realpath", lambda p: real(p) if str(p).startswith(there) else p)
    return tmp_path


def test_disk_has_its_kind_and_its_partitions(machine: Path) -> None:
    expected = {
        "nvme0n1": ("disk", ["/dev/nvme0n1p1", "/dev/nvme0n1p2"]),
        "nvme0n1p2": ("partition", []),
        "md127": ("array", []),
        "dm-0": ("lvm", []),
    }
    found = {name: storage.disk(f"/dev/{name}") or {} for name in expected}
    assert {n: (d["kind"], d["partitions"]) for n, d in found.items()} == expected


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


@in_subtests("whole", ["ro,errors=remount-ro", "rw,emergency_ro", "rw,shutdown"])
def test_file_system_that_gave_up_writing_is_read_only(machine: Path, whole: str) -> None:
    # Seen on Linux 6.1: the mount itself stays "rw".
    known = MOUNTINFO.replace("/dev/md127 rw", f"/dev/md127 {whole}")
    (storage.PROC / "1/mountinfo").write_text(known)
    mount = storage.mount("/srv/models")
    assert mount is not None
    assert mount["options"] == "ro,noatime"


def test_sandbox_of_the_unit_that_looks_says_nothing_of_the_mount(machine: Path) -> None:
    (storage.PROC / "self").mkdir()
    (storage.PROC / "self/mountinfo").write_text(MOUNTINFO.replace(" rw", " ro"))
    mount = storage.mount("/srv/models")
    assert mount is not None
    assert mount["options"] == "rw,noatime"


@in_subtests("source", ["nvme0n1p2", "none", "rootfs"])
def test_mount_is_of_the_device_the_kernel_numbers_whatever_its_source_is_called(
    machine: Path, source: str
) -> None:
    known = MOUNTINFO.replace("ext4 /dev/nvme0n1p2", f"ext4 {source}")
    (storage.PROC / "1/mountinfo").write_text(known)
    assert (storage.mount("/") or {})["device"] == "/dev/nvme0n1p2"


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


@in_subtests("text", ["[" * 100_000, "[]", "{", '{"signatures": [1]}', "{}"])
def test_what_wipefs_should_not_say_is_unmeasured(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "command", lambda argv: text)
    assert "unmeasured" in attempt(lambda: storage.signatures("/dev/sdb"))


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A real block device."""
    (tmp_path / "disk").write_bytes(bytes(4 << 20))
    attach = ["losetup", "--find", "--show", str(tmp_path / "disk")]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs a loop device: {done.stderr.strip()}")
    yield done.stdout.strip()
    subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


def test_device_that_somebody_has_claimed_is_busy_whatever_the_tables_show(loop: str) -> None:
    assert storage.claimed(loop) is False
    found = storage.disk(loop)
    assert found is not None
    assert (found["kind"], found["claimed"], found["blank"]) == ("loop", False, True)
    assert found["partitions"] == []
    held = os.open(loop, os.O_RDWR | os.O_EXCL)
    try:
        assert storage.claimed(loop) is True
    finally:
        os.close(held)


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
