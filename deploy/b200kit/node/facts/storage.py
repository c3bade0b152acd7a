"""Disks, what lies on them and who uses them; arrays; and what is mounted at the store for models.

Everything but the signatures is read from sysfs and procfs: lsblk reports of a disk what udev last
knew of it, and libblkid (wipefs) what lies on it now.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt, command, text

BLOCK = Path("/sys/class/block")
NUMBERS = Path("/sys/dev/block")
PROC = Path("/proc")
SYSTEM = ("/", "/boot", "/boot/efi", "/usr", "/var", "[SWAP]")
_MIB = 1 << 20
_ARRAY = re.compile(r"(md\S*) : (\S+)(?: \(([\w-]+)\))? (.*)")
_MEMBER = re.compile(r"(\S+?)\[\d+\]((?:\(\w\))*)")
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
    here = [entry for entry in mounts() if entry["path"] == path]
    return {key: here[-1][key] for key in ("device", "fstype", "options")} if here else None


def entries(path: Path) -> int:
    """How many names a directory has; a mount hides them."""
    return len(list(path.iterdir())) if path.is_dir() else 0


def mounts() -> Iterator[dict[str, str]]:
    """Every mount of this process's namespace, in order."""
    for line in text(PROC / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, _, point, options, *_ = before.split()
        fstype, source, *_ = after.split()
        yield {
            "path": plain(point),
            "device": named(number) or plain(source),
            "fstype": fstype,
            "options": options,
        }


def plain(word: str) -> str:
    """A word of mountinfo or swaps without its octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def named(number: str) -> str | None:
    """The device of "259:1"; None for what has none, such as tmpfs."""
    link = NUMBERS / number
    return f"/dev/{os.path.basename(os.readlink(link))}" if link.is_symlink() else None


def uses() -> dict[str, list[str]]:
    """Device to where it is mounted, "[SWAP]" for swap."""
    found: dict[str, list[str]] = {}
    for entry in mounts():
        found.setdefault(entry["device"], []).append(entry["path"])
    for line in text(PROC / "swaps").splitlines()[1:]:
        found.setdefault(os.path.realpath(plain(line.split()[0])), []).append("[SWAP]")
    return found


def disk(path: str) -> dict[str, Any] | None:
    """One disk; null when there is no such device. Raises OSError for what is no disk."""
    if not os.path.exists(path):
        return None
    device = os.path.realpath(path)
    block = BLOCK / os.path.basename(device)
    if not block.is_dir():
        raise OSError(f"{device} is no block device")
    used, below = uses(), list(descendants(block.name))
    where = sorted(
        {point for name in [block.name, *below] for point in used.get(f"/dev/{name}", [])}
    )
    return {
        "device": device,
        "size_bytes": int(text(block / "size")) * 512,
        "read_only": text(block / "ro") == "1",
        "signatures": attempt(lambda: signatures(device)),
        "blank": attempt(lambda: blank(device)),
        "partitions": [f"/dev/{name}" for name in partitions(block.name)],
        "holders": [f"/dev/{name}" for name in below if name not in partitions(block.name)],
        "mounts": where,
        "system": any(point in SYSTEM for point in where),
    }


def partitions(name: str) -> list[str]:
    """The partitions of a disk."""
    found = (BLOCK / name).iterdir()
    return sorted(entry.name for entry in found if (entry / "partition").is_file())


def descendants(name: str) -> Iterator[str]:
    """What is made of a device: its partitions, and arrays, volumes, ... on it or on them."""
    folder = BLOCK / name / "holders"
    holders = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    for child in [*partitions(name), *holders]:
        yield child
        yield from descendants(child)


def signatures(device: str) -> list[dict[str, Any]]:
    """Everything libblkid knows that lies on a device; [] when it knows of nothing."""
    output = command(["wipefs", "--no-act", "--json", device])
    found = json.loads(output)["signatures"] if output.strip() else []
    return [{key: entry.get(key) or None for key in ("type", "uuid", "label")} for entry in found]


def blank(device: str) -> bool:
    """Whether the first MiB holds nothing but zeros."""
    with open(device, "rb") as file:
        return not any(file.read(_MIB))


def arrays() -> dict[str, Any]:
    """Running and stopped md arrays by device; {} without the md driver."""
    table = PROC / "mdstat"
    found = parse_mdstat(text(table)) if table.exists() else {}
    used = uses()
    for device, array in found.items():
        array["signatures"] = attempt(partial(signatures, device))
        array["mounts"] = sorted(used.get(device, []))
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
