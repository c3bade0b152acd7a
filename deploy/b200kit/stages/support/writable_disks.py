"""Which block devices may ever be written: whole disks that nothing of the machine lies on. Pure.

Decided by the tree of all block devices and by what the kernel said of the disk itself
(b200kit/node/facts/storage.py). What was not read is taken to be in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
KINDS = ("disk", "loop")
# What of a disk must have been read before anything is written to it.
READ = ("device", "read_only", "claimed", "signatures", "on_partitions", "blank")


class Refusal(ValueError):
    """Why nothing is done to these disks: one line with what was observed and what to do."""


def known(value: object, what: str, null: bool = False) -> Json:
    """A part of the reading; {} for null where that may be. Nothing is assumed of what is not."""
    if value is None and null:
        return {}
    if not isinstance(value, Mapping) or "unmeasured" in value:
        why = value.get("unmeasured") if isinstance(value, Mapping) else "nothing was read"
        raise Refusal(f"{what} could not be read: {why}")
    return value


@dataclass(frozen=True)
class Devices:
    """The tree of all block devices, and what of it the running system lies on."""

    tree: Json
    system: Json

    @classmethod
    def read(cls, reading: Json) -> Devices:
        """Raises Refusal when any part of it was not read, or names a device that is not there."""
        tree = known(reading.get("devices"), "the block devices")
        for device, entry in tree.items():
            for key in ("kind", "parents", "mounts"):
                if not isinstance(known(entry, device).get(key), str | list):
                    known(entry.get(key), f"{key} of {device}")
            if entry.get("identity") is not None and not isinstance(entry["identity"], str):
                known(entry["identity"], f"identity of {device}")
            for parent in entry["parents"]:
                known(tree.get(parent), f"{parent}, which {device} is made of,")
        system = known(reading.get("system"), "what the running system lies on")
        for point in ("/", *system):
            lies_on = system.get(point)
            if not isinstance(lies_on, str) or (lies_on[:5] == "/dev/" and lies_on not in tree):
                raise Refusal(f"what is mounted at {point} could not be read: {lies_on}")
        return cls(tree, system)

    def made_of(self, device: str) -> Iterator[str]:
        """What is made of a device, directly or not: partitions, arrays, volumes, mappings."""
        for name, entry in self.tree.items():
            if device in entry["parents"]:
                yield name
                yield from self.made_of(name)

    def partitions(self, device: str) -> list[str]:
        """The partitions of a disk."""
        below = [name for name, entry in self.tree.items() if device in entry["parents"]]
        return [name for name in below if self.tree[name]["kind"] == "partition"]

    def users(self, device: str) -> str:
        """What uses a device or anything made of it, in words; empty when nothing does."""
        below = [*dict.fromkeys(self.made_of(device))]
        mounts = sorted({point for name in (device, *below) for point in self.tree[name]["mounts"]})
        holders = [name for name in below if self.tree[name]["kind"] != "partition"]
        return ", ".join(mounts or holders)

    def twin_in_use(self, device: str) -> str:
        """Another path to the same disk, where that is in use; empty when there is none."""
        own = self.tree[device].get("identity")
        same = [n for n, e in self.tree.items() if own and n != device and e.get("identity") == own]
        return next(filter(self.users, same), "")

    def refusal(self, disk: Json) -> str:
        """Why a disk may not be written, whatever the inventory says; empty when it may."""
        path, device = disk["path"], disk["device"]
        kind = known(self.tree.get(device), f"{path} ({device})")["kind"]
        if {device, *self.made_of(device)} & {*self.system.values()}:
            return f"{path} ({device}) holds the running system and is never erased"
        if kind not in KINDS:
            return f"{path} ({device}) is no whole disk (kind: {kind}): name a whole disk"
        if used := self.users(device):
            return f"{path} is in use, {used}: end that first, or name another disk"
        if disk["claimed"]:
            return f"{path} is in use, the kernel says busy: end that first, or name another disk"
        if twin := self.twin_in_use(device):
            return f"{path} ({device}) is the same disk as {twin}, which is in use: name another"
        if self._may_be_of_the_systems_group(disk):
            return (
                f"{path} belongs to LVM, and so does the running system: take it out with vgreduce "
                "and pvremove first, or name another disk"
            )
        return f"{path} is read-only" if disk["read_only"] else ""

    def _may_be_of_the_systems_group(self, disk: Json) -> bool:
        """A volume group shows on a disk only where a volume in use lies on that very disk."""
        lies_on_it = [*(s.get("type") for s in disk["signatures"]), *disk["on_partitions"]]
        volumes = (e for e in self.tree.values() if e["kind"] == "lvm" and e["mounts"])
        return "LVM2_member" in lies_on_it and any(volumes)
