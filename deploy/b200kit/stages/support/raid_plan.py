"""From readings of disks to the steps that make a store of them, or a refusal. Pure.

Readings: the part `storage` of NodeState (docs/reference/node-state.md). Only blank disks are ever
written: whole ones without a partition, a signature or a byte in the first MiB, which nothing in
the kernel uses. Ours are an array and a file system with the UUIDs that follow from the names of
their disks, so a re-imaged node keeps its models. All else is refused with the commands
that make the disks blank, also what a killed run of ours left half made.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.keys.storage import array_uuid, filesystem_uuid, mdadm_uuid

Json = Mapping[str, Any]
# The label of a file system until it is whole.
MAKING = "b200-making"
MEMBER = "linux_raid_member"
_WHOLE = ("disk", "loop")


class RaidRefusal(ValueError):
    """Why nothing is done to these disks: one line with what was observed and what to do."""


@dataclass(frozen=True)
class RaidStep:
    """One act on the node: what a person reads, and the shell line that does it."""

    what: str
    script: str


def steps(storage: Storage, observed: object) -> list[RaidStep]:
    """What is still to be done to the disks, in order; raises Refusal."""
    reading = _known(observed, "the disks")
    mounted = reading.get("mount")
    if mounted is not None:
        _known(mounted, f"what is mounted at {storage.mount}")
    if not storage.disks:
        if not mounted:
            raise RaidRefusal(
                f"{storage.mount} is not a mount of its own, and storage.disks names no disk to "
                "make one of: mount it, or name disks"
            )
        return []
    disks = [_disk(path, reading) for path in storage.disks]
    if len(disks) == 1:
        target, found = str(disks[0]["device"]), _on_disk(storage, disks[0])
    else:
        target, found = _on_array(storage, disks, reading)
    if mounted and (found or mounted.get("device") != target):
        raise RaidRefusal(
            f"{mounted.get('device')} is mounted at {storage.mount}: unmount it first"
        )
    return found


def _known(value: object, what: str) -> Json:
    """A part of the reading; nothing is assumed of one that was not read."""
    if not isinstance(value, Mapping) or "unmeasured" in value:
        why = value.get("unmeasured") if isinstance(value, Mapping) else "nothing was read"
        raise RaidRefusal(f"{what} could not be read: {why}")
    return value


def _disk(path: str, reading: Json) -> Json:
    """A disk with its `path` as the inventory names it."""
    disks = _known(reading.get("disks"), "the disks")
    if disks.get(path, "") is None:
        raise RaidRefusal(f"{path}: there is no such disk")
    disk = _known(disks.get(path), path)
    for key in ("device", "kind", "read_only", "claimed", "partitions", "signatures", "blank"):
        if not isinstance(disk.get(key), str | bool | list):
            _known(disk.get(key), f"{key} of {path}")
    return {**disk, "path": path}


def _on_disk(storage: Storage, disk: Json) -> list[RaidStep]:
    """Steps for a single disk: the file system lies on it as a whole."""
    if _is_whole(storage, disk["signatures"]):
        return []
    _refuse_unless_blank([disk])
    return [RaidStep(f"make {storage.filesystem} on {disk['path']}", _format(storage, [disk]))]


def _on_array(storage: Storage, disks: Sequence[Json], reading: Json) -> tuple[str, list[RaidStep]]:
    """The device of several disks, and the steps: the array with its file system."""
    name, uuid = f"/dev/md/{storage.label}", mdadm_uuid(str(array_uuid(storage.disks)))
    others = [disk["path"] for disk in disks if not _is_member(disk, storage)]
    array = _array(disks, reading)
    if array:
        device, signatures = str(array["device"]), array["signatures"]
        if not isinstance(signatures, list):
            _known(signatures, f"what lies on {device}")
        if others or not _is_whole(storage, signatures):
            found = "another array" if others else _tell(signatures) or "no file system"
            raise RaidRefusal(
                f"{device} holds {found}, not the store of these disks: nothing was changed. "
                f"{_blanking(disks, device)}"
            )
        return device, []
    if not others:
        for disk in disks:
            _refuse_used(disk)
        return name, [_assemble(storage, disks, name, uuid)]
    if len(others) < len(disks):
        raise RaidRefusal(
            f"{len(disks) - len(others)} of {len(disks)} disks belong to this node's array and "
            f"{', '.join(others)} does not, so what was on it is lost: put the missing disk back. "
            f"{_blanking(disks)}"
        )
    _refuse_unless_blank(disks)
    paths = " ".join(map(shlex.quote, storage.disks))
    # What the array uncovers of an earlier one at the same place is wiped before mkfs sees it.
    create = (
        f"mdadm --create {name} --run --quiet --level=0 --metadata=1.2 "
        f"--raid-devices={len(disks)} --name={shlex.quote(storage.label)} --uuid={uuid} {paths} "
        f"&& {{ udevadm settle || true; }} && wipefs --all --quiet {name}"
    )
    what = f"make a RAID0 of {len(disks)} disks with {storage.filesystem}, {name}"
    return name, [RaidStep(what, _format(storage, disks, create, name))]


def _array(disks: Sequence[Json], reading: Json) -> Json | None:
    """The running array of exactly these disks."""
    devices = {disk["device"] for disk in disks}
    for device, array in _known(reading.get("arrays"), "the arrays").items():
        if {*_known(array, device)["members"]} == devices and array["state"] != "inactive":
            return {**array, "device": device}
    return None


def _is_member(disk: Json, storage: Storage) -> bool:
    uuid = array_uuid(storage.disks)
    return any(s.get("type") == MEMBER and s.get("uuid") == uuid for s in disk["signatures"])


def _is_whole(storage: Storage, signatures: Sequence[Json]) -> bool:
    """Whether the file system asked for is there, finished, and nothing beside it."""
    ours = {"type": storage.filesystem, "uuid": filesystem_uuid(storage.disks)}
    return len(signatures) == 1 and (
        ours.items() <= signatures[0].items() and signatures[0].get("label") != MAKING
    )


def _refuse_used(disk: Json) -> None:
    """Raise Refusal for a disk that may not be written, whatever lies on it."""
    path, device = disk["path"], disk["device"]
    if disk["kind"] not in _WHOLE:
        raise RaidRefusal(f"{path} ({device}) is no whole disk (kind: {disk['kind']}): name one")
    if disk["claimed"]:
        raise RaidRefusal(
            f"{path} is in use, as `lsblk {device}` shows: end that first, or name another disk"
        )
    if disk["read_only"]:
        raise RaidRefusal(f"{path} is read-only")


def _refuse_unless_blank(disks: Sequence[Json]) -> None:
    """Raise Refusal for the first disk in use, or that anything lies on."""
    for disk in disks:
        _refuse_used(disk)
    full = [disk for disk in disks if _content(disk)]
    if full:
        more = f" (and {len(full) - 1} more disks)" if len(full) > 1 else ""
        raise RaidRefusal(
            f"{full[0]['path']} is not blank, it has {_content(full[0])}{more}: nothing was "
            f"changed. {_blanking(full)}"
        )


def _content(disk: Json) -> str:
    """What lies on a disk, in words; empty for a blank one."""
    words = [_tell(disk["signatures"])] if disk["signatures"] else []
    if disk["partitions"]:
        words.append(f"partitions {', '.join(disk['partitions'])}")
    if not words and not disk["blank"]:
        words.append("data of no known kind in its first MiB")
    return " and ".join(words)


def _tell(signatures: Sequence[Json]) -> str:
    found = [
        f"{s.get('type')} {s['label']!r}" if s.get("label") else str(s.get("type"))
        for s in signatures
    ]
    return ", ".join(dict.fromkeys(found))


def _blanking(disks: Sequence[Json], array: str = "") -> str:
    """The commands for a person who gives up all that is there.

    Signatures of partitions go first, so that no new partition uncovers them.
    """
    stop = [f"mdadm --stop {array}"] if array else []
    devices = [name for disk in disks for name in (*disk["partitions"], disk["path"])]
    wipe = f"wipefs --all {' '.join(map(shlex.quote, devices))}"
    paths = " ".join(shlex.quote(disk["path"]) for disk in disks)
    zero = f'for d in {paths}; do dd if=/dev/zero of="$d" bs=1M count=1; done'
    commands = "; ".join([*stop, wipe, zero])
    return f"If all of it may go, run on the node as root: {commands}"


def _assemble(storage: Storage, disks: Sequence[Json], name: str, uuid: str) -> RaidStep:
    """The array put together; what lies on it must be whole, as only it can show."""
    paths = " ".join(map(shlex.quote, storage.disks))
    message = f"{name} holds no whole file system of ours. {_blanking(disks, name)}"
    script = (
        f"{_same(disks)} && mdadm --assemble {name} --run --quiet --uuid={uuid} {paths} && "
        f"{{ udevadm settle || true; }} && "
        f'{{ test "$(blkid -p -o value -s UUID {name}) $(blkid -p -o value -s LABEL {name})" = '
        f'"{filesystem_uuid(storage.disks)} {storage.label}" || '
        f"{{ echo {shlex.quote(message)} >&2; false; }}; }}"
    )
    return RaidStep(f"assemble {name}", script)


def _same(disks: Sequence[Json]) -> str:
    """A shell test that names still lead where they led when it was decided what to write."""
    return " && ".join(
        f'test "$(readlink -f {shlex.quote(disk["path"])})" = {shlex.quote(disk["device"])}'
        for disk in disks
    )


def _format(storage: Storage, disks: Sequence[Json], first: str = "", array: str = "") -> str:
    """The file system, after *first*; its label comes last and marks a whole one.

    Models are few large files: an inode a MiB, nothing reserved for root, and the inode tables of
    ext4 written now, not by the kernel behind the first load of a model.
    """
    target = shlex.quote(array or disks[0]["path"])
    uuid, label = filesystem_uuid(storage.disks), shlex.quote(storage.label)
    if storage.filesystem == "xfs":
        make = f"mkfs.xfs -q -L {MAKING} -m uuid={uuid} {target}"
        name = f"xfs_admin -L {label} {target}"
    else:
        lazy = "-E lazy_itable_init=0,lazy_journal_init=0"
        make = f"mkfs.ext4 -q -F -b 4096 -i 1048576 -m 0 {lazy} -L {MAKING} -U {uuid} {target}"
        name = f"e2label {target} {label}"
    acts = [_same(disks), first, make, name, "{ udevadm settle || true; }"]
    return " && ".join(filter(None, acts))
