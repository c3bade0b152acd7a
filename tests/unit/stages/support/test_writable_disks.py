"""Which block devices may be written: never one of the running system, or in use, or unread."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from b200kit.stages.support.raid_plan import steps
from b200kit.stages.support.writable_disks import Refusal
from tests.messages import raises_message
from tests.subtests import in_subtests
from tests.unit.stages.support.test_raid_plan import BLANK, A, B, asked, device, seen

Json = dict[str, Any]
DISK = "/dev/nvme1n1"
PART = f"{DISK}p1"
ON_DISK = device("partition", DISK)
LVM = {"/dev/dm-0": device("lvm", "/dev/nvme0n1p1", mounts=["/"])}
STORES = [asked(disks=[A], erase=[A]), asked(erase=[A, B])]
PV = [{"type": "LVM2_member", "uuid": "x", "label": None}]

IN_USE: dict[str, Json] = {
    "its partition is the root": {"tree": {PART: device("partition", DISK, mounts=["/"])}},
    "mounted": {"tree": {DISK: device(mounts=["/data"])}},
    "swap on a partition": {"tree": {PART: device("partition", DISK, mounts=["[SWAP]"])}},
    "held by a volume": {"tree": {"/dev/dm-0": device("lvm", DISK)}},
    "root on a volume on crypt on a partition": {
        "tree": {
            PART: ON_DISK,
            "/dev/dm-0": device("crypt", PART),
            "/dev/dm-1": device("lvm", "/dev/dm-0", mounts=["/"]),
        }
    },
    "a partition of the system's disk": {"device": "/dev/nvme0n1p2"},
    "a partition of a free disk": {"tree": {PART: ON_DISK}, "device": PART},
    "a multipath map": {"tree": {"/dev/dm-0": device("mpath")}, "device": "/dev/dm-0"},
    "a path of a multipath map": {"tree": {"/dev/dm-0": device("mpath", DISK)}},
    "another path to the system's disk": {"tree": {DISK: device(identity="eui.0")}},
    "busy for a reason that shows nowhere": {"claimed": True},
    "a spare volume of the system's group": {"tree": LVM, "signatures": PV},
    "such a one on a partition": {"tree": LVM | {PART: ON_DISK}, "on_partitions": ["LVM2_member"]},
    "read-only": {"read_only": True},
    "in no tree": {"device": "/dev/nvme9n1"},
}


@in_subtests("name", IN_USE)
@in_subtests("erase", [(), (A, B)])
def test_disk_that_may_not_be_written_is_refused_whatever_may_be_erased(
    name: str, erase: tuple[str, ...]
) -> None:
    reading = seen(**IN_USE[name])
    reading["devices"].setdefault("/dev/nvme0n1p2", device("partition", "/dev/nvme0n1"))
    with raises_message(Refusal):
        steps(asked(erase=[*erase]), reading)


@in_subtests("root", ["/dev/sdz9", None])
def test_root_that_is_on_no_known_device_frees_no_disk(root: str | None) -> None:
    reading = seen()
    reading["system"] = {"/": root} if root else {}
    with raises_message(Refusal):
        steps(asked(), reading)


def test_root_on_no_device_is_left_to_what_the_kernel_says_of_the_disk() -> None:
    reading = seen()
    reading["system"] = {"/": "overlay"}
    assert steps(asked(), reading)


@st.composite
def machines(draw: st.DrawFn) -> tuple[Json, set[str]]:
    """A tree of devices, built from the disks up, and the disks that the running system needs."""
    devices: Json = {}
    # Device to the disks that it lies on, as it is built.
    lies_on: dict[str, set[str]] = {}

    def add(name: str, kind: str, *parents: str) -> None:
        devices[name] = device(kind, *parents, identity=f"id {name}" if not parents else None)
        lies_on[name] = set().union({name} if not parents else set(), *map(lies_on.get, parents))  # type: ignore[arg-type]

    disks = [f"/dev/sd{chr(97 + number)}" for number in range(draw(st.integers(2, 5)))]
    for disk in disks:
        add(disk, "disk")
        for number in range(draw(st.integers(0, 3))):
            add(f"{disk}{number + 1}", "partition", disk)
    for number in range(draw(st.integers(0, 5))):
        free = sorted(name for name in devices if not _has_children(name, devices))
        parts = draw(st.lists(st.sampled_from(free), min_size=1, max_size=3, unique=True))
        kind = draw(st.sampled_from(["lvm", "crypt", "mpath", "array"]))
        add(f"/dev/{'md' if kind == 'array' else 'dm-'}{number}", kind, *parts)
    top = sorted(name for name in devices if not _has_children(name, devices))
    used = draw(st.lists(st.sampled_from(top), min_size=1, max_size=4, unique=True))
    points = ["/", "/boot/efi", "[SWAP]", "/var"]
    for name, point in zip(used, points, strict=False):
        devices[name]["mounts"] = [point]
    needed = set().union(*(lies_on[name] for name in used))
    # A disk reached on a second path, which the tree shows apart.
    if draw(st.booleans()):
        twin = draw(st.sampled_from(disks))
        add("/dev/sdx", "disk")
        devices["/dev/sdx"]["identity"] = f"id {twin}"
        needed |= {"/dev/sdx"} if twin in needed else set()
    system = {p: n for n, p in zip(used, points, strict=False) if p != "[SWAP]"}
    return {"devices": devices, "system": system}, needed


def _has_children(name: str, devices: Json) -> bool:
    return any(name in entry["parents"] for entry in devices.values())


def written(reading: Json, **more: Any) -> set[str]:
    """The devices of a machine that some inventory gets written, each asked alone and with others.

    Every one may be erased.
    """
    found = set()
    for name in reading["devices"]:
        disk = BLANK | {"device": name, "blank": False, "signatures": [{"type": "ext4"}]} | more
        disks = {A: disk, B: {**BLANK, "device": name}}
        whole = {**reading, "mount": None, "arrays": {}, "disks": disks}
        for store in STORES:
            try:
                made = steps(store, whole)
            except Refusal:
                continue
            found |= {name} if made else set()
    return found


@settings(max_examples=100)
@given(machines())
def test_no_device_that_the_running_system_lies_on_is_ever_written(
    machine: tuple[Json, set[str]],
) -> None:
    reading, needed = machine
    may = written(reading)
    assert not may & needed
    assert {reading["devices"][name]["kind"] for name in may} <= {"disk"}
    # And a disk that nothing is made of, on no path, can be used.
    tree = reading["devices"]
    held = {e["identity"] for n, e in tree.items() if _has_children(n, tree) or n in needed}
    free = {n for n, e in tree.items() if e["kind"] == "disk" and e["identity"] not in held}
    assert free <= may


@settings(max_examples=100)
@given(machines(), st.data())
def test_no_device_is_written_when_any_part_of_the_tree_was_not_read(
    machine: tuple[Json, set[str]], drawn: st.DataObject
) -> None:
    reading = deepcopy(machine[0])
    name = drawn.draw(st.sampled_from(sorted(reading["devices"])))
    key = drawn.draw(st.sampled_from(["kind", "parents", "mounts", "identity", None]))
    missing = drawn.draw(st.booleans())
    place = reading["devices"][name] if key else reading["devices"]
    if missing and key != "identity":
        del place[key or name]
    else:
        place[key or name] = {"unmeasured": "Input/output error"}
    if not missing:
        assert not written(reading)
    else:
        assert not written(reading) & machine[1]


@pytest.mark.parametrize("key", ["read_only", "claimed", "signatures", "on_partitions", "blank"])
def test_disk_of_which_anything_was_not_read_is_not_written(key: str) -> None:
    reading = seen()
    assert not written(reading, **{key: {"unmeasured": "Input/output error"}})
