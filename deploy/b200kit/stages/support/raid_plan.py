"""From readings of disks to the steps that make a store of them, or a refusal. Pure.

Readings: the part `storage` of NodeState (docs/reference/node-state.md). Ours are a disk of our
array, our array without a file system, and a file system that was begun and never finished: its
label says so until it is whole. Everything else on a disk is somebody's, and stays unless `erase`
names the disk; what is in use, or holds the running system, always stays.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.keys.storage import array_uuid, filesystem_uuid, mdadm_uuid
from b200kit.node.state.drift import PENDING

Json = Mapping[str, Any]
MAKING = "b200-making"
MEMBER = "linux_raid_member"


class Refusal(ValueError):
    """Why nothing is done to these disks: one line with what was observed and what to do."""


@dataclass(frozen=True)
class Step:
    """One act on the node: what a person reads, and the shell line that does it."""

    what: str
    script: str
    # What comes after it is known only when the disks are looked at again.
    look_again: bool = False


def marker(storage: Storage) -> str:
    """The file that is there while a file system is being made.

    mkfs writes its superblock last: one that was cut off leaves a disk that looks like somebody's.
    """
    return f"{PENDING}/format-{filesystem_uuid(storage.disks)}"


def steps(storage: Storage, observed: object, begun: bool = False) -> list[Step]:
    """What is still to be done to the disks, in order; raises Refusal.

    *begun* says that `marker` is there: a file system was being made when the node was cut off.
    """
    reading = _known(observed, "the disks")
    mounted = _known(reading.get("mount"), f"what is mounted at {storage.mount}", null=True)
    if not storage.disks:
        if not mounted:
            raise Refusal(
                f"{storage.mount} is not a mount of its own, and storage.disks names no disk to "
                "make one of: mount it, or name disks"
            )
        return []
    disks = [_disk(path, reading) for path in storage.disks]
    if len(disks) == 1:
        found = _on_disk(storage, disks[0], begun)
    else:
        found = _on_array(storage, disks, reading)
    if mounted and (found or mounted.get("device") != _target(storage, disks, reading)):
        raise Refusal(f"{mounted.get('device')} is mounted at {storage.mount}: unmount it first")
    return found


def _known(value: object, what: str, null: bool = False) -> Json:
    """A part of the reading; {} for null where that may be. Nothing is assumed of what is not."""
    if value is None and null:
        return {}
    if not isinstance(value, Mapping) or "unmeasured" in value:
        why = value.get("unmeasured") if isinstance(value, Mapping) else "nothing was read"
        raise Refusal(f"{what} could not be read: {why}")
    return value


def _disk(path: str, reading: Json) -> Json:
    """A disk with its `path` as the inventory names it."""
    disks = _known(reading.get("disks"), "the disks")
    if disks.get(path, "") is None:
        raise Refusal(f"{path}: there is no such disk")
    disk = _known(disks.get(path), path)
    for key in ("signatures", "blank", "partitions", "holders", "mounts"):
        if key not in disk or (isinstance(disk[key], Mapping) and "unmeasured" in disk[key]):
            _known(disk.get(key), f"{key} of {path}")
    return {**disk, "path": path}


def _on_disk(storage: Storage, disk: Json, begun: bool) -> list[Step]:
    """Steps for a single disk: the file system lies on it as a whole."""
    ours = str(filesystem_uuid(storage.disks))
    if _complete(storage, disk["signatures"], ours):
        return []
    strange = [s for s in disk["signatures"] if (s.get("uuid"), s.get("label")) != (ours, MAKING)]
    half = bool(disk["signatures"]) or begun
    target = shlex.quote(disk["path"])
    if half and not (strange or disk["partitions"] or disk["mounts"] or disk["holders"]):
        return [_format(storage, target)]
    return [*_freed(storage, [disk]), _format(storage, target)]


def _on_array(storage: Storage, disks: Sequence[Json], reading: Json) -> list[Step]:
    """Steps for several disks: the array, then the file system on it."""
    name = shlex.quote(f"/dev/md/{storage.label}")
    uuid = str(array_uuid(storage.disks))
    members = [disk for disk in disks if _is_member(disk, uuid)]
    if len(members) < len(disks):
        if members and not {disk["path"] for disk in disks} <= {*storage.erase}:
            raise Refusal(_torn(members, disks))
        return [*_freed(storage, disks), _create(storage, name, uuid), _format(storage, name)]
    array = _array(disks, reading)
    if array is None:
        return [_assemble(storage, name, uuid)]
    device, signatures = str(array["device"]), array["signatures"]
    if _complete(storage, signatures, str(filesystem_uuid(storage.disks))):
        return []
    strange = [s for s in signatures if s.get("label") != MAKING]
    if strange and not {disk["path"] for disk in disks} <= {*storage.erase}:
        raise Refusal(
            f"the array {device} holds {_told(strange)}, which is not ours: take it away by hand, "
            "or name all its disks in storage.erase"
        )
    if array.get("mounts"):
        raise Refusal(f"{device} is mounted at {', '.join(array['mounts'])}: unmount it first")
    return [_format(storage, shlex.quote(device))]


def _target(storage: Storage, disks: Sequence[Json], reading: Json) -> str:
    """The device that must be mounted."""
    if len(disks) == 1:
        return str(disks[0]["device"])
    array = _array(disks, reading)
    return str(array["device"]) if array else f"/dev/md/{storage.label}"


def _array(disks: Sequence[Json], reading: Json) -> Json | None:
    """The running array of exactly these disks."""
    devices = {disk["device"] for disk in disks}
    for device, array in _known(reading.get("arrays"), "the arrays").items():
        if {*_known(array, device)["members"]} == devices and array["state"] != "inactive":
            if not isinstance(array["signatures"], Sequence):
                _known(array["signatures"], f"what lies on {device}")
            return {**array, "device": device}
    return None


def _is_member(disk: Json, uuid: str) -> bool:
    return any(s.get("type") == MEMBER and s.get("uuid") == uuid for s in disk["signatures"])


def _complete(storage: Storage, signatures: Sequence[Json], uuid: str) -> bool:
    """Whether the file system asked for is there, and whole."""
    ours = [s for s in signatures if s.get("uuid") == uuid and s.get("label") != MAKING]
    return bool(ours) and ours[0].get("type") == storage.filesystem and len(signatures) == 1


def _torn(members: Sequence[Json], disks: Sequence[Json]) -> str:
    others = [str(disk["path"]) for disk in disks if disk not in members]
    return (
        f"{len(members)} of {len(disks)} disks belong to this node's array and "
        f"{', '.join(others)} does not, so what was on it is lost: name all of them in "
        "storage.erase to make it again, or put the missing disk back"
    )


def _freed(storage: Storage, disks: Sequence[Json]) -> list[Step]:
    """A step for each disk that must be erased; raises Refusal for one that may not be."""
    refused = [message for disk in disks if (message := _refusal(storage, disk))]
    if refused:
        more = f" (and {len(refused) - 1} more disks)" if len(refused) > 1 else ""
        raise Refusal(refused[0] + more)
    return [
        Step(f"erase {disk['path']}, which had {_content(disk)}", _wipe(disk))
        for disk in disks
        if _content(disk)
    ]


def _refusal(storage: Storage, disk: Json) -> str:
    """Why a disk may not be used; empty when it may."""
    path = disk["path"]
    if disk.get("system"):
        return f"{path} ({disk['device']}) holds the running system and is never erased"
    if disk["mounts"]:
        return f"{path} is in use, {', '.join(disk['mounts'])}: unmount it first, or name another"
    if disk["holders"]:
        held = ", ".join(disk["holders"])
        return f"{path} is in use by {held}: stop that first, or name another disk"
    if disk.get("read_only"):
        return f"{path} is read-only"
    if _content(disk) and path not in storage.erase:
        return (
            f"{path} is not empty, it has {_content(disk)}: nothing was changed; name it in "
            "storage.erase if all of it may go"
        )
    return ""


def _content(disk: Json) -> str:
    """What lies on a disk, in words; empty for a blank one."""
    words = [_told(disk["signatures"])] if disk["signatures"] else []
    if disk["partitions"]:
        words.append(f"partitions {', '.join(disk['partitions'])}")
    if not words and not disk["blank"]:
        words.append("data of no known kind in its first MiB")
    return " and ".join(words)


def _told(signatures: Sequence[Json]) -> str:
    found = [
        f"{s.get('type')} {s['label']!r}" if s.get("label") else str(s.get("type"))
        for s in signatures
    ]
    return ", ".join(dict.fromkeys(found))


def _wipe(disk: Json) -> str:
    """Signatures of partitions first, so that no new partition finds them again.

    The first MiB too, so that a run killed before the next step does not find its rest.
    """
    devices = [*disk["partitions"], disk["path"]]
    wipes = [f"wipefs --all --quiet {shlex.quote(device)}" for device in devices]
    blank = f"dd if=/dev/zero of={shlex.quote(disk['path'])} bs=1M count=1 conv=fsync status=none"
    return " && ".join([*wipes, blank])


def _create(storage: Storage, name: str, uuid: str) -> Step:
    """The array; what it uncovers of an earlier one at the same place is wiped at once."""
    disks = " ".join(map(shlex.quote, storage.disks))
    script = (
        f"mdadm --create {name} --run --quiet --level=0 --metadata=1.2 "
        f"--raid-devices={len(storage.disks)} --name={shlex.quote(storage.label)} "
        f"--uuid={mdadm_uuid(uuid)} {disks} && {{ udevadm settle || true; }} && "
        f"wipefs --all --quiet {name}"
    )
    return Step(f"make a RAID0 of {len(storage.disks)} disks, /dev/md/{storage.label}", script)


def _assemble(storage: Storage, name: str, uuid: str) -> Step:
    disks = " ".join(map(shlex.quote, storage.disks))
    script = f"mdadm --assemble {name} --run --quiet --uuid={mdadm_uuid(uuid)} {disks}"
    return Step(f"assemble /dev/md/{storage.label}", script, look_again=True)


def _format(storage: Storage, target: str) -> Step:
    """The file system; its label comes last and marks a complete one.

    Models are few large files: an inode a MiB, nothing reserved for root, and the inode tables of
    ext4 written now, not by the kernel behind the first load of a model.
    """
    uuid = filesystem_uuid(storage.disks)
    label = shlex.quote(storage.label)
    if storage.filesystem == "xfs":
        make = f"mkfs.xfs -q -f -L {MAKING} -m uuid={uuid} {target}"
        name = f"xfs_admin -L {label} {target}"
    else:
        lazy = "-E lazy_itable_init=0,lazy_journal_init=0"
        make = f"mkfs.ext4 -q -F -i 1048576 -m 0 {lazy} -L {MAKING} -U {uuid} {target}"
        name = f"e2label {target} {label}"
    mark = marker(storage)
    begin = f"mkdir -p {mark.rpartition('/')[0]} && : > {mark} && sync {mark}"
    script = f"{begin} && {make} && {name} && rm {mark} && {{ udevadm settle || true; }}"
    return Step(f"make {storage.filesystem} on {target}", script)
