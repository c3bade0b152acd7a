"""Which steps make a store of which disks, and which disks are left alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from b200kit.inventory.keys import storage
from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.stages.support.raid_plan import MAKING, Refusal, steps
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
    "signatures": [],
    "blank": True,
    "partitions": [],
    "holders": [],
    "mounts": [],
    "system": False,
}


def asked(**changes: Any) -> Storage:
    """A store of two disks."""
    spec = parse(data(storage={"disks": [A, B], **changes}), CATALOGUE)
    assert isinstance(spec, NodeSpec), spec
    assert spec.storage is not None
    return spec.storage


def seen(**of_a: Any) -> Json:
    """Two blank disks, the first of them changed."""
    disks = {A: BLANK | of_a, B: {**BLANK, "device": "/dev/nvme2n1"}}
    return deepcopy({"mount": None, "entries": 0, "disks": disks, "arrays": {}})


def joined(*signatures: Json, state: str = "active", mounted: bool = False) -> Json:
    """Both disks in our array, which holds these signatures."""
    where = ["/srv/models"] if mounted else []
    member = {"signatures": [MEMBER], "blank": False, "holders": ["/dev/md127"], "mounts": where}
    reading = seen(**member)
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
    reading = joined(WHOLE)
    reading["arrays"] = {}
    for disk in reading["disks"].values():
        disk["holders"] = []
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


FOREIGN: dict[str, tuple[Json, str]] = {
    "a file system": ({"signatures": [OTHER]}, "ext4 'data'"),
    "a partition table": (
        {"signatures": [{"type": "gpt", "uuid": "x", "label": None}], "blank": False},
        "gpt",
    ),
    "partitions": ({"partitions": ["/dev/nvme1n1p1"]}, "partitions /dev/nvme1n1p1"),
    "another array": (
        {"signatures": [{**MEMBER, "uuid": OTHER["uuid"]}]},
        "linux_raid_member 'n01:b200-models'",
    ),
    "data that nobody knows": ({"blank": False}, "data of no known kind in its first MiB"),
}


@in_subtests("name", FOREIGN)
def test_disk_that_is_not_empty_is_refused_by_what_is_on_it(name: str) -> None:
    change, words = FOREIGN[name]
    with pytest.raises(Refusal) as refused:
        described(seen(**change))
    assert str(refused.value).startswith(f"{A} is not empty, it has {words}: nothing was changed")
    assert "storage.erase" in str(refused.value)


@in_subtests("name", FOREIGN)
def test_disk_that_may_be_erased_is(name: str) -> None:
    change, words = FOREIGN[name]
    erase, *rest = described(seen(**change), erase=[A])
    assert erase == f"erase {A}, which had {words}"
    assert rest == [MAKE, "make ext4 on /dev/md/b200-models"]


def test_only_the_named_disk_is_erased_and_its_partitions_before_it() -> None:
    wipe, *rest = steps(asked(erase=[A]), seen(partitions=["/dev/nvme1n1p1"], signatures=[OTHER]))
    assert wipe.script.startswith(
        f"wipefs --all --quiet /dev/nvme1n1p1 && wipefs --all --quiet {A} && dd "
    )
    assert B not in wipe.script
    assert not any(f"wipefs --all --quiet {B}" in step.script for step in rest)


def test_naming_one_disk_does_not_free_the_other() -> None:
    reading = seen(signatures=[OTHER])
    reading["disks"][B]["signatures"] = [OTHER]
    with pytest.raises(Refusal, match="nvme-B is not empty"):
        described(reading, erase=[A])


@in_subtests(
    ("change", "words"),
    [
        ({"system": True, "mounts": ["/"]}, "holds the running system and is never erased"),
        ({"mounts": ["/data"]}, "is in use, /data: unmount it first"),
        ({"mounts": ["[SWAP]"]}, r"is in use, \[SWAP\]"),
        ({"holders": ["/dev/dm-0"]}, "is in use by /dev/dm-0: stop that first"),
        ({"read_only": True}, "is read-only"),
    ],
)
@in_subtests("erase", [(), (A, B)])
def test_disk_in_use_is_refused_whatever_may_be_erased(
    change: Json, words: str, erase: tuple[str, ...]
) -> None:
    with pytest.raises(Refusal, match=words):
        described(seen(**change), erase=list(erase))


def test_all_that_is_refused_is_counted() -> None:
    reading = seen(signatures=[OTHER])
    reading["disks"][B]["signatures"] = [OTHER]
    with pytest.raises(Refusal, match=r"\(and 1 more disks\)"):
        described(reading)


def test_disk_that_is_not_there_is_named() -> None:
    reading = seen()
    reading["disks"][B] = None
    with pytest.raises(Refusal, match=f"{B}: there is no such disk"):
        described(reading)


def test_array_with_one_disk_exchanged_is_not_made_anew_unasked() -> None:
    reading = seen(signatures=[MEMBER], blank=False)
    with pytest.raises(Refusal, match=f"1 of 2 disks belong to this node's array and {B} does not"):
        described(reading)
    assert described(reading, erase=[A, B])[-2:] == [MAKE, "make ext4 on /dev/md/b200-models"]


def test_our_array_with_somebodys_file_system_is_left_alone() -> None:
    with pytest.raises(Refusal, match="holds ext4 'data', which is not ours"):
        described(joined(OTHER))
    assert described(joined(OTHER), erase=[A, B]) == ["make ext4 on /dev/md127"]


def test_another_kind_of_file_system_is_not_made_over_the_one_that_is_there() -> None:
    with pytest.raises(Refusal, match="holds ext4 'b200-models', which is not ours"):
        described(joined(WHOLE), filesystem="xfs")


def test_what_else_is_mounted_there_is_refused() -> None:
    reading = joined(WHOLE)
    reading["mount"] = {"device": "/dev/sdb1", "fstype": "xfs", "options": "rw"}
    with pytest.raises(Refusal, match="/dev/sdb1 is mounted at /srv/models: unmount it first"):
        described(reading)


@in_subtests(
    "path",
    [(), ("disks",), ("disks", A), ("disks", A, "signatures"), ("disks", A, "blank"), ("mount",)],
)
def test_nothing_is_assumed_of_what_was_not_read(path: tuple[str, ...]) -> None:
    reading: Json = {"storage": seen()}
    place = reading
    for key in ("storage", *path)[:-1]:
        place = place[key]
    place[("storage", *path)[-1]] = {"unmeasured": "Input/output error"}
    with pytest.raises(Refusal, match="could not be read: Input/output error"):
        steps(asked(), reading["storage"])


def test_arrays_that_were_not_read_are_not_taken_for_none() -> None:
    reading = joined(WHOLE)
    reading["arrays"] = {"unmeasured": "Input/output error"}
    with pytest.raises(Refusal, match="the arrays could not be read"):
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


def test_single_disk_whose_file_system_was_begun_gets_it_whole() -> None:
    half = single(signatures=[{**SOLE, "label": MAKING}], blank=False)
    assert described(half, disks=[A]) == [f"make ext4 on {A}"]
    cut_off = single(blank=False)
    with pytest.raises(Refusal, match="no known kind"):
        steps(asked(disks=[A]), cut_off)
    assert [s.what for s in steps(asked(disks=[A]), cut_off, begun=True)] == [f"make ext4 on {A}"]


def test_what_was_begun_is_no_leave_to_take_somebodys_disk() -> None:
    with pytest.raises(Refusal, match="ext4 'data'"):
        steps(asked(disks=[A]), single(signatures=[OTHER], blank=False), begun=True)
    with pytest.raises(Refusal, match="holds the running system"):
        steps(asked(disks=[A]), single(system=True, mounts=["/"], blank=False), begun=True)


def test_mount_of_somebody_else_must_be_there() -> None:
    with pytest.raises(Refusal, match="/srv/models is not a mount of its own"):
        described(single(), disks=[])
    reading = single()
    reading["mount"] = {"device": "10.0.0.9:/models", "fstype": "nfs4", "options": "rw"}
    assert described(reading, disks=[]) == []


@in_subtests(
    ("raw", "said"),
    [
        ({"disks": [A, A]}, "given twice"),
        ({"disks": [A], "erase": [B]}, "is not one of storage.disks"),
        ({"disks": ["nvme0n1"]}, "a device path"),
        ({"disks": ["/dev/nvme0n1"], "erase": ["/dev/nvme0n1"]}, "below /dev/disk/by-id"),
        ({"erase": True}, "must be a list"),
        ({"mount": "srv/models"}, "an absolute path"),
        ({"mount": "/srv/.."}, "an absolute path"),
        ({"label": "much-too-long-a-label"}, "1 to 12 letters"),
    ],
)
def test_what_cannot_be_is_refused(raw: Json, said: str) -> None:
    problems = parse(data(storage=raw), CATALOGUE)
    assert isinstance(problems, list)
    assert said in problems[0].message, problems


@pytest.mark.parametrize(
    ("path", "unit"),
    [("/srv/models", "srv-models.mount"), ("/data/my-models", r"data-my\x2dmodels.mount")],
)
def test_unit_of_a_mount_is_named_as_systemd_names_it(path: str, unit: str) -> None:
    assert storage.mount_unit(path) == unit
