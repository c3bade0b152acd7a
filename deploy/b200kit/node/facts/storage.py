"""Disks, what lies on them and who uses them; arrays; and what is mounted at the store for models.

Everything but the signatures is read from sysfs and procfs: lsblk reports of a disk what udev last
knew of it, and libblkid (wipefs) what lies on it now.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Object
from b200kit.node.lib.readings import attempt, command, text

BLOCK = Path("/sys/class/block")
NUMBERS = Path("/sys/dev/block")
PROC = Path("/proc")
_MIB = 1 << 20
# The last two are ext4's words since Linux 6.15.
_NO_WRITES = {"ro", "emergency_ro", "shutdown"}
_ARRAY = re.compile(r"(md\S*) : (\S+)(?: \(([A-Za-z0-9_-]+)\))? (.*)")
_MEMBER = re.compile(r"(\S+?)\[[0-9]+\]((?:\([A-Za-z0-9_]\))*)")
_FLAGS = {"F": "faulty", "S": "spare", "W": "write-mostly", "R": "replacement", "J": "journal"}


def storage(ask: dict[str, Any]) -> dict[str, Any]:
    """What `ask` {"mount": path, "disks": [paths]} is about."""
    paths = [str(path) for path in ask.get("disks", [])]
    return {
        "mount": attempt(lambda: mount(str(ask["mount"]))),
        "entries": attempt(lambda: entries(Path(str(ask["mount"])))),
        "disks": {path: attempt(partial(disk, path)) for path in paths},
        "arrays": attempt(arrays),
    }


def mount(path: str) -> dict[str, str] | None:
    """Device, type and options of the file system mounted at a path; null when none is."""
    here = [*mounts(path)]
    return {key: here[-1][key] for key in ("device", "fstype", "options")} if here else None


def entries(path: Path) -> int:
    """How many names a directory has; a mount hides them."""
    return len(list(path.iterdir())) if path.is_dir() else 0


def mounts(path: str | None = None) -> Iterator[dict[str, str]]:
    """Every mount in order, or those at a *path*, as the system's first process has it.

    In the sandbox of a unit, as the gate has one, all is mounted again and read-only.
    """
    for line in text(PROC / "1/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, _, point, options, *_ = before.split()
        if path not in (None, plain(point)):
            continue
        fstype, source, *whole = after.split()
        yield {
            "path": plain(point),
            "device": named(number) or _source(plain(source)),
            "fstype": fstype,
            "options": _in_force(options, whole),
        }


def _source(name: str) -> str:
    return os.path.realpath(name) if name.startswith("/dev/") else name


def _in_force(options: str, whole: list[str]) -> str:
    """A mount's options; read-only as /proc/mounts says it, of its file system as a *whole*, too.

    A kernel that gives up writing makes the file system read-only, and leaves its mounts "rw".
    """
    lost = _NO_WRITES & {*",".join(whole).split(",")}
    return re.sub(r"^rw\b", "ro", options) if lost else options


def plain(word: str) -> str:
    """A word of mountinfo or swaps without its octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def named(number: str) -> str | None:
    """The device of "259:1"; None for what has none, such as tmpfs."""
    link = NUMBERS / number
    return f"/dev/{os.path.basename(os.readlink(link))}" if link.is_symlink() else None


def kind(block: Path) -> str:
    """What a device is: "partition", "array", "loop", "disk", or a mapping's own "lvm", "crypt"."""
    if (block / "partition").exists():
        return "partition"
    if (block / "dm").exists():
        return text(block / "dm/uuid").partition("-")[0].lower() or "mapping"
    for part, name in (("md", "array"), ("loop", "loop"), ("device", "disk")):
        if (block / part).exists() or (name == "loop" and block.name.startswith("loop")):
            return name
    return "virtual"


def disk(path: str) -> dict[str, Any] | None:
    """One disk; null when there is no such device. Raises OSError for what is no disk."""
    if not os.path.exists(path):
        return None
    device = os.path.realpath(path)
    block = BLOCK / os.path.basename(device)
    if not block.is_dir():
        raise OSError(f"{device} is no block device")
    return {
        "device": device,
        "kind": attempt(lambda: kind(block)),
        "size_bytes": int(text(block / "size")) * 512,
        "read_only": text(block / "ro") == "1",
        "claimed": attempt(lambda: claimed(device)),
        "partitions": attempt(lambda: partitions(block)),
        "signatures": attempt(lambda: signatures(device)),
        "blank": attempt(lambda: blank(device)),
    }


def partitions(block: Path) -> list[str]:
    """The partitions of a disk."""
    parts = [entry.name for entry in block.iterdir() if (entry / "partition").is_file()]
    return [f"/dev/{name}" for name in sorted(parts)]


def claimed(device: str) -> bool:
    """Whether the kernel has a user for it or for a partition: also what no table here shows.

    Such as a member of a btrfs or a zpool, or a mount in another namespace.
    """
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return True
    return False


def signatures(device: str) -> list[dict[str, Any]]:
    """Everything libblkid knows that lies on a device; [] when it knows of nothing."""
    output = command(["wipefs", "--no-act", "--json", device])
    if not output.strip():
        return []
    found = documents.decode(dict[str, list[Object]], output, source=f"wipefs of {device}")
    keys = ("type", "uuid", "label")
    return [{key: entry.get(key) or None for key in keys} for entry in found["signatures"]]


def blank(device: str) -> bool:
    """Whether the first MiB holds nothing but zeros."""
    with open(device, "rb") as file:
        return not any(file.read(_MIB))


def arrays() -> dict[str, Any]:
    """Running and stopped md arrays by device; {} without the md driver."""
    table = PROC / "mdstat"
    found = parse_mdstat(text(table)) if table.exists() else {}
    for device, array in found.items():
        array["signatures"] = attempt(partial(signatures, device))
    return found


def parse_mdstat(content: str) -> dict[str, dict[str, Any]]:
    """Arrays of /proc/mdstat: state ("active", "inactive", "broken"), level, members' states.

    "md127 : active raid0 nvme1n1[1](F) nvme0n1[0]"; an inactive array has no level.
    """
    found = {}
    for match in filter(None, map(_ARRAY.match, content.splitlines())):
        name, state, _, rest = match.groups()
        first = rest.split()[0] if rest.split() else ""
        found[f"/dev/{name}"] = {
            "state": state,
            "level": first if "[" not in first else None,
            "members": {f"/dev/{member}": _state(flags) for member, flags in members(rest)},
        }
    return found


def members(rest: str) -> Iterable[tuple[str, str]]:
    """Member and flags of the end of an array's line."""
    return [(match[1], match[2]) for match in _MEMBER.finditer(rest)]


def _state(flags: str) -> str:
    """A member's state in words."""
    return (
        ", ".join(_FLAGS.get(flag, flag) for flag in flags.strip("()").split(")(") if flag) or "ok"
    )
