"""Which steps make a store of which disks, and which disks are left alone."""

from __future__ import annotations

import hashlib
import re
from copy import deepcopy
from typing import Any

import pytest

from b200kit.inventory.keys import storage
from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.stages.support.raid_plan import MAKING, steps
from b200kit.stages.support.writable_disks import Refusal
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, data

Json = dict[str, Any]
A, B = "/dev/disk/by-id/nvme-A", "/dev/disk/by-id/nvme-B"
ARRAY, FS = storage.array_uuid([A, B]), storage.filesystem_uuid([A, B])
MEMBER = {"type": "linux_raid_member", "uuid": ARRAY, "label": "n01:b200-models"}
WHOLE = {"type": "ext4", "uuid": FS, "label": "b200-models"}
BEGUN = {**WHOLE, "label": MAKING}
OTHER = {"type": "ext4", "uuid": "11111111-2222-3333-4444-555555555555", "label": "data"}
BLANK: Json = {
    "device": "/dev/nvme1n1",
    "size_bytes": 3840755982336,
    "read_only": False,
    "claimed": False,
    "signatures": [],
    "on_partitions": [],
    "blank": True,
    "head_blank": True,
    "sample": "00ff",
}


def device(kind: str = "disk", *parents: str, **more: Any) -> Json:
    """An entry of the tree of devices."""
    return {"kind": kind, "parents": [*parents], "mounts": [], "identity": None, **more}


PARTITION = {"/dev/nvme1n1p1": device("partition", "/dev/nvme1n1")}


def asked(**changes: Any) -> Storage:
    """A store of two disks."""
    spec = parse(data(storage={"disks": [A, B], **changes}), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    assert spec.storage is not None
    return spec.storage


def seen(tree: Json | None = None, **of_a: Any) -> Json:
    """A disk of the system and two blank ones, the first of these changed."""
    disks = {A: BLANK | of_a, B: {**BLANK, "device": "/dev/nvme2n1"}}
    devices = {
        "/dev/nvme0n1": device(identity="eui.0"),
        "/dev/nvme0n1p1": device("partition", "/dev/nvme0n1", mounts=["/"]),
        "/dev/nvme1n1": device(identity="eui.1"),
        "/dev/nvme2n1": device(identity="eui.2"),
    }
    reading = {"mount": None, "entries": 0, "disks": disks, "arrays": {}}
    system = {"/": "/dev/nvme0n1p1"}
    return deepcopy({**reading, "system": system, "devices": devices | (tree or {})})


def joined(*signatures: Json, state: str = "active", mounted: bool = False) -> Json:
    """Both disks in our array, which holds these signatures."""
    where = ["/srv/models"] if mounted else []
    member = {"signatures": [MEMBER], "blank": False, "claimed": True}
    array = device("array", "/dev/nvme1n1", "/dev/nvme2n1", mounts=where)
    reading = seen({"/dev/md127": array}, **member)
    reading["disks"][B] |= member
    reading["arrays"]["/dev/md127"] = {
        "state": state,
        "level": "raid0",
        "members": {"/dev/nvme1n1": "ok", "/dev/nvme2n1": "ok"},
        "signatures": list(signatures),
        "mounts": where,
    }
    if mounted:
        reading["mount"] = {"device": "/dev/md127", "fstype": "ext4", "options": "rw"}
    return reading


def described(reading: Json, **changes: Any) -> list[str]:
    """What would be done, in words."""
    return [step.what for step in steps(asked(**changes), reading)]


MAKE = "make a RAID0 of 2 disks, /dev/md/b200-models"


def test_blank_disks_become_an_array_with_a_file_system() -> None:
    assert described(seen()) == [MAKE, "make ext4 on /dev/md/b200-models"]


def test_store_that_is_there_needs_nothing() -> None:
    assert described(joined(WHOLE, mounted=True)) == []
    assert described(joined(WHOLE)) == []


@pytest.mark.parametrize("left", [(), (BEGUN,)])
def test_run_that_was_killed_before_the_file_system_was_whole_goes_on(left: tuple[Json]) -> None:
    assert described(joined(*left)) == ["make ext4 on /dev/md127"]


def test_array_that_was_not_put_together_is_and_then_looked_at_again() -> None:
    reading = seen(signatures=[MEMBER], blank=False)
    reading["disks"][B] |= {"signatures": [MEMBER], "blank": False}
    [step] = steps(asked(), reading)
    assert step.what == "assemble /dev/md/b200-models"
    assert step.look_again


def test_array_and_file_system_are_made_with_the_uuids_that_tell_them_again() -> None:
    make, form = steps(asked(), seen())
    assert ARRAY is not None
    assert f"--uuid={storage.mdadm_uuid(ARRAY)}" in make.script
    assert f"-L {MAKING} -U {FS}" in form.script
    assert form.script.index("mkfs.ext4") < form.script.index("e2label /dev/md/b200-models")


def test_same_disks_have_the_same_uuids_and_others_have_others() -> None:
    assert storage.array_uuid([A, B]) == ARRAY
    assert storage.array_uuid([B, A]) != ARRAY
    assert storage.array_uuid([A]) is None
    assert storage.filesystem_uuid([]) is None


FOREIGN: dict[str, Json] = {
    "a file system": {"signatures": [OTHER]},
    "a partition table": {
        "signatures": [{"type": "gpt", "uuid": "x", "label": None}],
        "blank": False,
    },
    "partitions": {"tree": PARTITION},
    "another array": {"signatures": [{**MEMBER, "uuid": OTHER["uuid"]}]},
    "data that nobody knows": {"blank": False},
}


@in_subtests("name", FOREIGN)
def test_disk_that_is_not_empty_is_refused_by_what_is_on_it(name: str) -> None:
    with raises_message(Refusal):
        described(seen(**FOREIGN[name]))


@in_subtests("name", FOREIGN)
def test_disk_that_may_be_erased_is(name: str) -> None:
    erase, *rest = described(seen(**FOREIGN[name]), erase=[A])
    assert_message(erase)
    assert rest == [MAKE, "make ext4 on /dev/md/b200-models"]


def test_only_the_named_disk_is_erased_and_its_partitions_before_it() -> None:
    wipe, *rest = steps(asked(erase=[A]), seen(PARTITION, signatures=[OTHER]))
    assert wipe.script.startswith(
        f'test "$(readlink -f {A})" = /dev/nvme1n1 && '
        f"wipefs --all --quiet /dev/nvme1n1p1 && wipefs --all --quiet {A} && dd "
    )
    assert B not in wipe.script
    assert not any(f"wipefs --all --quiet {B}" in step.script for step in rest)


def test_naming_one_disk_does_not_free_the_other() -> None:
    reading = seen(signatures=[OTHER])
    reading["disks"][B]["signatures"] = [OTHER]
    with raises_message(Refusal):
        described(reading, erase=[A])


def test_all_that_is_refused_is_counted() -> None:
    reading = seen(signatures=[OTHER])
    reading["disks"][B]["signatures"] = [OTHER]
    with pytest.raises(Refusal, match=r"\(and 1 more disks\)"):
        described(reading)


def test_disk_that_is_not_there_is_named() -> None:
    reading = seen()
    reading["disks"][B] = None
    with raises_message(Refusal):
        described(reading)


def test_array_with_one_disk_exchanged_is_not_made_again_unasked() -> None:
    reading = seen(signatures=[MEMBER], blank=False)
    with raises_message(Refusal):
        described(reading)
    assert described(reading, erase=[A, B])[-2:] == [MAKE, "make ext4 on /dev/md/b200-models"]


def test_our_array_with_somebodys_file_system_is_left_alone() -> None:
    with raises_message(Refusal):
        described(joined(OTHER))
    assert described(joined(OTHER), erase=[A, B]) == ["make ext4 on /dev/md127"]


def test_another_kind_of_file_system_is_not_made_over_the_one_that_is_there() -> None:
    with raises_message(Refusal):
        described(joined(WHOLE), filesystem="xfs")


def test_what_else_is_mounted_there_is_refused() -> None:
    reading = joined(WHOLE)
    reading["mount"] = {"device": "/dev/sdb1", "fstype": "xfs", "options": "rw"}
    with raises_message(Refusal):
        described(reading)


@in_subtests(
    "path",
    [
        *[(), ("disks",), ("disks", A), ("mount",), ("system",), ("devices",)],
        *[("disks", A, key) for key in ("signatures", "blank", "claimed", "on_partitions")],
        *[("devices", "/dev/nvme1n1", key) for key in ("kind", "parents", "mounts", "identity")],
    ],
)
def test_nothing_is_assumed_of_what_was_not_read(path: tuple[str, ...]) -> None:
    reading: Json = {"storage": seen()}
    place = reading
    for key in ("storage", *path)[:-1]:
        place = place[key]
    place[("storage", *path)[-1]] = {"unmeasured": "Input/output error"}
    with raises_message(Refusal):
        steps(asked(), reading["storage"])


def test_arrays_that_were_not_read_are_not_taken_for_none() -> None:
    reading = joined(WHOLE)
    reading["arrays"] = {"unmeasured": "Input/output error"}
    with raises_message(Refusal):
        described(reading)


SOLE = {"type": "ext4", "uuid": storage.filesystem_uuid([A]), "label": "b200-models"}


def single(**of_a: Any) -> Json:
    """One disk alone."""
    reading = seen(**of_a)
    del reading["disks"][B]
    return reading


def test_single_disk_needs_no_array() -> None:
    assert described(single(), disks=[A]) == [f"make ext4 on {A}"]
    assert described(single(signatures=[SOLE], blank=False), disks=[A]) == []


def mark_of(reading: Json) -> str:
    """The digest of the marker that making the file system on a blank disk leaves."""
    [make] = steps(asked(disks=[A]), reading)
    content = re.search(r"printf %s '(.*?)' > ", make.script, re.DOTALL)
    assert content
    return hashlib.sha256(content[1].encode()).hexdigest()


def test_single_disk_whose_file_system_was_begun_gets_it_whole() -> None:
    half = single(signatures=[{**SOLE, "label": MAKING}], blank=False)
    assert described(half, disks=[A]) == [f"make ext4 on {A}"]
    mark = mark_of(single())
    cut_off = single(blank=False)
    with pytest.raises(Refusal, match="no known kind"):
        steps(asked(disks=[A]), cut_off)
    assert [s.what for s in steps(asked(disks=[A]), cut_off, mark)] == [f"make ext4 on {A}"]


STALE: dict[str, Json] = {
    "another disk in its place": {"tree": {"/dev/nvme1n1": device(identity="eui.9")}},
    "a disk without a name": {"tree": {"/dev/nvme1n1": device()}},
    "a disk of another size": {"size_bytes": 1},
    "data written all over it": {"sample": "01ff"},
    "data that was not sampled": {"sample": {"unmeasured": "Input/output error"}},
    "data from its first page on": {"head_blank": False},
    "a first page that was not read": {"head_blank": {"unmeasured": "Input/output error"}},
    "somebody's file system": {"signatures": [OTHER]},
    "partitions": {"tree": PARTITION},
    "the running system": {"tree": {"/dev/nvme1n1": device(identity="eui.1", mounts=["/"])}},
    "a user in the kernel": {"claimed": True},
}


@in_subtests("name", STALE)
def test_mark_that_was_left_is_no_leave_to_take_somebodys_disk(name: str) -> None:
    mark = mark_of(single())
    with raises_message(Refusal):
        steps(asked(disks=[A]), single(**{"blank": False, **STALE[name]}), mark)


def test_mount_of_somebody_else_must_be_there() -> None:
    with raises_message(Refusal):
        described(single(), disks=[])
    reading = single()
    reading["mount"] = {"device": "10.0.0.9:/models", "fstype": "nfs4", "options": "rw"}
    assert described(reading, disks=[]) == []


@in_subtests(
    "raw",
    [
        {"disks": [A, A]},
        {"disks": [A], "erase": [B]},
        {"disks": ["nvme0n1"]},
        {"disks": ["/dev/nvme0n1"], "erase": ["/dev/nvme0n1"]},
        {"erase": True},
        {"mount": "srv/models"},
        {"mount": "/srv/.."},
        {"label": "much-too-long-a-label"},
    ],
)
def test_what_cannot_be_is_refused(raw: Json) -> None:
    problems = parse(data(storage=raw), CATALOGUE)
    assert isinstance(problems, list)
    assert_message(problems[0].message)


@pytest.mark.parametrize(
    ("path", "unit"),
    [("/srv/models", "srv-models.mount"), ("/data/my-models", r"data-my\x2dmodels.mount")],
)
def test_unit_of_a_mount_is_named_as_systemd_names_it(path: str, unit: str) -> None:
    assert storage.mount_unit(path) == unit
