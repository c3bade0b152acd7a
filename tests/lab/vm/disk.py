"""Disks as files: a partitioned image without any mount, and what is laid over it."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.lab.paths import LabError
from tests.lab.shell import last_line, run

LABEL = "b200-vm"
SECTOR = 512
_FIRST_SECTOR = 2048  # 1 MiB, as every partitioner since 2010 has it; GRUB's core lives before it
_LINUX = 0x83


def partition_table(sectors: int) -> bytes:
    """A master boot record with one bootable Linux partition from 1 MiB to the end."""
    entry = struct.pack(
        "<B3sB3sII", 0x80, b"\xfe\xff\xff", _LINUX, b"\xfe\xff\xff",
        _FIRST_SECTOR, sectors - _FIRST_SECTOR,
    )  # fmt: skip
    return bytes(440) + b"b200" + bytes(2) + entry + bytes(48) + b"\x55\xaa"


def make_image(image: Path, root: Path, mebibytes: int) -> None:
    """Write ``image``: partition table, and an ext4 file system holding the tree at ``root``."""
    size = mebibytes << 20
    with open(image, "wb") as file:
        file.truncate(size)
        file.write(partition_table(size // SECTOR))
    start = _FIRST_SECTOR * SECTOR
    kibibytes = (size - start) // 1024
    options = ["-q", "-F", "-t", "ext4", "-L", LABEL, "-m", "0"]
    extended = f"offset={start},lazy_itable_init=1,lazy_journal_init=1"
    run(["mke2fs", *options, "-E", extended, "-d", root, image, f"{kibibytes}k"])


def put_file(image: Path, source: Path, target: str) -> None:
    """Write a file into the image's file system, without mounting it; its folder is made.

    Raises `LabError` where the file system was not unmounted cleanly: its journal would undo this.
    """
    folder, _, name = target.rpartition("/")
    commands = f'mkdir {folder}\ncd {folder}\nwrite "{source}" {name}\n'
    place = f"{image}?offset={_FIRST_SECTOR * SECTOR}"
    if "needs_recovery" in run(["dumpe2fs", "-h", place]).stdout:
        raise LabError(f"{image.name} was not unmounted cleanly: its journal would undo a write")
    done = run(["debugfs", "-w", "-f", "-", place], stdin=commands)
    if "File not found" in done.stderr or "No such" in done.stderr:
        raise LabError(f"{source.name} could not be written into {image.name}: {last_line(done)}")


def make_overlay(overlay: Path, base: Path) -> None:
    """Make a disk that starts as ``base`` (raw) and keeps its changes to itself."""
    overlay.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, overlay])


def make_empty(disk: Path, mebibytes: int) -> None:
    """Make a disk of zeros that takes space only for what is written."""
    disk.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", disk, f"{mebibytes}M"])
