"""From readings of disks to the steps that make a store of them, or a refusal. Pure.

Readings: the part `storage` of NodeState (docs/reference/node-state.md). Ours are a disk of our
array, our array without a file system, and a file system that was begun and never finished: its
label says so until it is whole. Everything else on a disk is somebody's, and stays unless `erase`
names the disk. What may not be written at all says b200kit/stages/support/writable_disks.py.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.keys.storage import array_uuid, filesystem_uuid, mdadm_uuid
from b200kit.node.state.drift import PENDING
from b200kit.stages.support.writable_disks import READ, Devices, Refusal, known

Json = Mapping[str, Any]
MAKING = "b200-making"
MEMBER = "linux_raid_member"


@dataclass(frozen=True)
class RaidStep:
    """One act on the node: what a person reads, and the shell line that does it."""

    what: str
    script: str
    # What comes after it is known only when the disks are looked at again.
    look_again: bool = False


def marker(storage: Storage) -> str:
    """The file that is there while a file system is being made.

    mkfs.ext4 clears the first page and writes its superblock last, in parts: one that was cut off
    leaves a disk that looks like somebody's.
    """
    return f"{PENDING}/format-{filesystem_uuid(storage.disks)}"


def _mark(disk: Json, devices: Devices) -> str:
    """What `marker` says: which disk, and what lay on it, as it is still with mkfs cut off.

    Empty for a disk that cannot be told from another of its size.
    """
    name = devices.tree[disk["device"]].get("identity")
    whole = isinstance(name, str) and isinstance(disk.get("sample"), str)
    return f"{name} {disk.get('size_bytes')} {disk['sample']}\n" if whole else ""


def steps(storage: Storage, observed: object, mark: object = None) -> list[RaidStep]:
    """What is still to be done to the disks, in order; raises Refusal.

    *mark* is the digest of `marker` on the node, where there is one: a file system was being made
    when the node was cut off.
    """
    reading = known(observed, "the disks")
    mounted = known(reading.get("mount"), f"what is mounted at {storage.mount}", null=True)
    if not storage.disks:
        if not mounted:
            raise Refusal(
                f"{storage.mount} is not a mount of its own, and storage.disks names no disk to "
                "make one of: mount it, or name disks"
            )
        return []
    devices = Devices.read(reading)
    disks = [_disk(path, reading, devices) for path in storage.disks]
    if len(disks) == 1:
        found = _on_disk(storage, disks[0], devices, mark)
    else:
        found = _on_array(storage, disks, reading, devices)
    if mounted and (found or mounted.get("device") != _target(storage, disks, reading)):
        raise Refusal(f"{mounted.get('device')} is mounted at {storage.mount}: unmount it first")
    return found


def _disk(path: str, reading: Json, devices: Devices) -> Json:
    """A disk with its `path` as the inventory names it, and its `partitions`."""
    disks = known(reading.get("disks"), "the disks")
    if disks.get(path, "") is None:
        raise Refusal(f"{path}: there is no such disk")
    disk = known(disks.get(path), path)
    for key in READ:
        if key not in disk or isinstance(disk[key], Mapping):
            known(disk.get(key), f"{key} of {path}")
    known(devices.tree.get(disk["device"]), f"{path} ({disk['device']})")
    return {**disk, "path": path, "partitions": devices.partitions(disk["device"])}


def _on_disk(storage: Storage, disk: Json, devices: Devices, mark: object) -> list[RaidStep]:
    """Steps for a single disk: the file system lies on it as a whole."""
    ours = str(filesystem_uuid(storage.disks))
    if _complete(storage, disk["signatures"], ours):
        return []
    making = [(s.get("uuid"), s.get("label")) for s in disk["signatures"]] == [(ours, MAKING)]
    half = not disk["partitions"] and (making or _cut_off(disk, devices, mark))
    freed = _freed(storage, [disk], devices, half)
    return [*freed, _format(storage, disk, _mark(disk, devices))]


def _cut_off(disk: Json, devices: Devices, mark: object) -> bool:
    """Whether what lies on a disk is all of a mkfs of ours that was cut off, as far as can be seen.

    The mark is of this disk as it is now, and nothing that anybody knows begins where all begins.
    """
    content = _mark(disk, devices)
    same = bool(content) and hashlib.sha256(content.encode()).hexdigest() == mark
    return same and not disk["signatures"] and disk.get("head_blank") is True


def _on_array(
    storage: Storage, disks: Sequence[Json], reading: Json, devices: Devices
) -> list[RaidStep]:
    """Steps for several disks: the array, then the file system on it."""
    name = shlex.quote(f"/dev/md/{storage.label}")
    uuid = str(array_uuid(storage.disks))
    members = [disk for disk in disks if _is_member(disk, uuid)]
    if len(members) < len(disks):
        if members and not {disk["path"] for disk in disks} <= {*storage.erase}:
            raise Refusal(_torn(members, disks))
        freed = _freed(storage, disks, devices)
        make = _format(storage, {"path": f"/dev/md/{storage.label}"})
        return [*freed, _create(storage, disks, name, uuid), make]
    array = _array(disks, reading)
    if array is None:
        _freed(storage, disks, devices, half=True)
        return [_assemble(storage, disks, name, uuid)]
    device, signatures = str(array["device"]), array["signatures"]
    if _complete(storage, signatures, str(filesystem_uuid(storage.disks))):
        return []
    strange = [s for s in signatures if s.get("label") != MAKING]
    if strange and not {disk["path"] for disk in disks} <= {*storage.erase}:
        raise Refusal(
            f"the array {device} holds {_told(strange)}, which is not ours: take it away by hand, "
            "or name all its disks in storage.erase"
        )
    known(devices.tree.get(device), device)
    if used := devices.users(device):
        raise Refusal(f"{device} is in use, {used}: end that first")
    return [_format(storage, {"path": device})]


def _target(storage: Storage, disks: Sequence[Json], reading: Json) -> str:
    """The device that must be mounted."""
    if len(disks) == 1:
        return str(disks[0]["device"])
    array = _array(disks, reading)
    return str(array["device"]) if array else f"/dev/md/{storage.label}"


def _array(disks: Sequence[Json], reading: Json) -> Json | None:
    """The running array of exactly these disks."""
    devices = {disk["device"] for disk in disks}
    for device, array in known(reading.get("arrays"), "the arrays").items():
        if {*known(array, device)["members"]} == devices and array["state"] != "inactive":
            if not isinstance(array["signatures"], Sequence):
                known(array["signatures"], f"what lies on {device}")
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


def _freed(
    storage: Storage, disks: Sequence[Json], devices: Devices, half: bool = False
) -> list[RaidStep]:
    """A step for each disk that must be erased; raises Refusal for one that may not be.

    *half* says that what lies there is our own, which the next step puts together or writes over.
    """
    refused = [
        message
        for disk in disks
        if (message := devices.refusal(disk) or _unasked(storage, disk, half))
    ]
    if refused:
        more = f" (and {len(refused) - 1} more disks)" if len(refused) > 1 else ""
        raise Refusal(refused[0] + more)
    return [
        RaidStep(f"erase {disk['path']}, which had {_content(disk)}", _wipe(disk))
        for disk in disks
        if _content(disk) and not half
    ]


def _unasked(storage: Storage, disk: Json, half: bool) -> str:
    """Why what lies on a disk stays; empty where nothing does, or the inventory gives it up."""
    path = disk["path"]
    if not _content(disk) or half or path in storage.erase:
        return ""
    return (
        f"{path} is not empty, it has {_content(disk)}: nothing was changed; name it in "
        "storage.erase if all of it may go"
    )


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
    return " && ".join([_same(disk), *wipes, blank])


def _same(*disks: Json) -> str:
    """A shell test that names still lead where they led when it was decided what to write."""
    return " && ".join(
        f'test "$(readlink -f {shlex.quote(disk["path"])})" = {shlex.quote(disk["device"])}'
        for disk in disks
    )


def _create(storage: Storage, disks: Sequence[Json], name: str, uuid: str) -> RaidStep:
    """The array; what it uncovers of an earlier one at the same place is wiped at once."""
    paths = " ".join(map(shlex.quote, storage.disks))
    script = (
        f"{_same(*disks)} && mdadm --create {name} --run --quiet --level=0 --metadata=1.2 "
        f"--raid-devices={len(storage.disks)} --name={shlex.quote(storage.label)} "
        f"--uuid={mdadm_uuid(uuid)} {paths} && {{ udevadm settle || true; }} && "
        f"wipefs --all --quiet {name}"
    )
    return RaidStep(f"make a RAID0 of {len(storage.disks)} disks, /dev/md/{storage.label}", script)


def _assemble(storage: Storage, disks: Sequence[Json], name: str, uuid: str) -> RaidStep:
    paths = " ".join(map(shlex.quote, storage.disks))
    assemble = f"mdadm --assemble {name} --run --quiet --uuid={mdadm_uuid(uuid)} {paths}"
    script = f"{_same(*disks)} && {assemble}"
    return RaidStep(f"assemble /dev/md/{storage.label}", script, look_again=True)


def _format(storage: Storage, device: Json, mark: str = "") -> RaidStep:
    """The file system; its label comes last and marks a complete one.

    Models are few large files: an inode a MiB, nothing reserved for root, and the inode tables of
    ext4 written now, not by the kernel behind the first load of a model.
    """
    uuid, target = filesystem_uuid(storage.disks), shlex.quote(device["path"])
    label = shlex.quote(storage.label)
    if storage.filesystem == "xfs":
        make = f"mkfs.xfs -q -f -L {MAKING} -m uuid={uuid} {target}"
        name = f"xfs_admin -L {label} {target}"
    else:
        lazy = "-E lazy_itable_init=0,lazy_journal_init=0"
        make = f"mkfs.ext4 -q -F -b 4096 -i 1048576 -m 0 {lazy} -L {MAKING} -U {uuid} {target}"
        name = f"e2label {target} {label}"
    script = f"{make} && {name} && {{ udevadm settle || true; }}"
    if "device" in device:
        script = f"{_same(device)} && {script}"
    if mark:
        file = marker(storage)
        begin = f"mkdir -p {PENDING} && printf %s {shlex.quote(mark)} > {file} && sync {file}"
        script = f"{begin} && {script} && rm {file}"
    return RaidStep(f"make {storage.filesystem} on {device['path']}", script)
