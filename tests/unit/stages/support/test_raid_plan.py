"""Which steps make a store of which disks, and which disks are left alone."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from typing import Any

import pytest

from b200kit.inventory.keys import storage
from b200kit.inventory.keys.parts import Storage
from b200kit.inventory.parse import parse
from b200kit.inventory.spec import NodeSpec
from b200kit.stages.support.raid_plan import MAKING, RaidRefusal, steps
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
SOLE = {"type": "ext4", "uuid": storage.filesystem_uuid([A]), "label": "b200-models"}
BLANK: Json = {
    "device": "/dev/nvme1n1",
    "kind": "disk",
    "size_bytes": 3840755982336,
    "read_only": False,
    "claimed": False,
    "partitions": [],
    "signatures": [],
    "blank": True,
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


def apart() -> Json:
    """Both disks are our array's, which nobody put together."""
    reading = seen(signatures=[MEMBER], blank=False)
    reading["disks"][B] |= {"signatures": [MEMBER], "blank": False}
    return reading


def joined(*signatures: Json, state: str = "active", mounted: bool = False) -> Json:
    """Both disks in our array, which holds these signatures."""
    reading = apart()
    for disk in reading["disks"].values():
        disk["claimed"] = True
    reading["arrays"]["/dev/md127"] = {
        "state": state,
        "level": "raid0",
        "members": {"/dev/nvme1n1": "ok", "/dev/nvme2n1": "ok"},
        "signatures": list(signatures),
    }
    if mounted:
        reading["mount"] = {"device": "/dev/md127", "fstype": "ext4", "options": "rw"}
    return reading


def described(reading: Json, **changes: Any) -> list[str]:
    """What would be done, in words."""
    return [step.what for step in steps(asked(**changes), reading)]


def test_blank_disks_become_an_array_with_a_file_system() -> None:
    [make] = steps(asked(), seen())
    assert make.what == "make a RAID0 of 2 disks with ext4, /dev/md/b200-models"
    # The UUIDs tell them again; the label comes last.
    assert ARRAY is not None
    acts = make.script.split(" && ")
    assert acts[:2] == [
        f'test "$(readlink -f {A})" = /dev/nvme1n1',
        f'test "$(readlink -f {B})" = /dev/nvme2n1',
    ]
    create, wipe, form, label = (
        next(n for n, act in enumerate(acts) if act.startswith(program))
        for program in ("mdadm --create", "wipefs", "mkfs.ext4", "e2label")
    )
    assert create < wipe < form < label
    assert f"--uuid={storage.mdadm_uuid(ARRAY)}" in acts[create]
    assert f"-L {MAKING} -U {FS}" in acts[form]


def test_store_that_is_there_needs_nothing() -> None:
    assert described(joined(WHOLE, mounted=True)) == []
    assert described(joined(WHOLE)) == []


def test_array_that_was_not_put_together_is() -> None:
    [step] = steps(asked(), apart())
    assert step.what == "assemble /dev/md/b200-models"


@pytest.mark.parametrize(("label", "code"), [("b200-models", 0), (MAKING, 1), ("", 1)])
def test_array_that_was_put_together_is_used_only_with_a_whole_file_system(
    label: str, code: int
) -> None:
    [step] = steps(asked(), apart())
    look = step.script[step.script.index("{ test ") :]
    blkid = f'blkid() {{ case "$*" in *UUID*) echo {FS};; *) echo "{label}";; esac; }}; '
    done = subprocess.run(
        ["/bin/sh", "-c", blkid + look], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert ("wipefs --all" in done.stderr) == (code == 1)


def test_same_disks_have_the_same_uuids_and_others_have_others() -> None:
    assert storage.array_uuid([A, B]) == ARRAY
    assert storage.array_uuid([B, A]) != ARRAY
    assert storage.array_uuid([A]) is None
    assert storage.filesystem_uuid([]) is None


FOREIGN: dict[str, Json] = {
    "a file system": {"signatures": [OTHER]},
    "our own that was cut off": {"signatures": [{**SOLE, "label": MAKING}], "blank": False},
    "a partition table": {
        "signatures": [{"type": "gpt", "uuid": "x", "label": None}],
        "blank": False,
    },
    "partitions": {"partitions": ["/dev/nvme1n1p1"]},
    "another array": {"signatures": [{**MEMBER, "uuid": OTHER["uuid"]}]},
    "a volume of the system's group": {"signatures": [{"type": "LVM2_member", "uuid": "x"}]},
    "data that nobody knows": {"blank": False},
}


@in_subtests("name", FOREIGN)
@in_subtests("disks", [[A], [A, B]])
def test_disk_that_is_not_blank_is_refused_with_the_commands(name: str, disks: list[str]) -> None:
    with pytest.raises(RaidRefusal) as refused:
        described(seen(**FOREIGN[name]), disks=disks)
    message = str(refused.value)
    assert_message(message)
    assert "wipefs --all" in message
    assert B not in message


def test_commands_name_all_that_is_not_blank_partitions_first() -> None:
    reading = seen(signatures=[OTHER], partitions=["/dev/nvme1n1p1"])
    reading["disks"][B]["signatures"] = [OTHER]
    with pytest.raises(RaidRefusal, match=r"\(and 1 more disks\)") as refused:
        described(reading)
    assert f"wipefs --all /dev/nvme1n1p1 {A} {B}; for d in {A} {B};" in str(refused.value)


IN_USE: dict[str, Json] = {
    "the system's, or held by anything": {"claimed": True},
    "a partition": {"kind": "partition", "device": "/dev/nvme0n1p2"},
    "a volume": {"kind": "lvm", "device": "/dev/dm-0"},
    "a multipath map": {"kind": "mpath", "device": "/dev/dm-0"},
    "read-only": {"read_only": True},
}


@in_subtests("name", IN_USE)
@in_subtests("disks", [[A], [A, B]])
@in_subtests("left", [[], [MEMBER]])
def test_disk_in_use_is_refused(name: str, disks: list[str], left: list[Json]) -> None:
    with raises_message(RaidRefusal):
        described(seen(**IN_USE[name], signatures=left), disks=disks)


def test_array_of_a_disk_that_something_else_has_taken_is_not_put_together() -> None:
    reading = apart()
    reading["disks"][B]["claimed"] = True
    with raises_message(RaidRefusal):
        described(reading)


def test_disk_that_is_not_there_is_named() -> None:
    reading = seen()
    reading["disks"][B] = None
    with raises_message(RaidRefusal):
        described(reading)


def test_array_with_one_disk_exchanged_is_not_made_again() -> None:
    with raises_message(RaidRefusal):
        described(seen(signatures=[MEMBER], blank=False))


@in_subtests("left", [(), (BEGUN,), (OTHER,)])
def test_array_without_a_whole_file_system_of_ours_is_left_alone(left: tuple[Json, ...]) -> None:
    with pytest.raises(RaidRefusal, match="mdadm --stop /dev/md127; wipefs --all"):
        described(joined(*left))


def test_another_kind_of_file_system_is_not_made_over_the_one_that_is_there() -> None:
    with raises_message(RaidRefusal):
        described(joined(WHOLE), filesystem="xfs")


def test_what_else_is_mounted_there_is_refused() -> None:
    reading = joined(WHOLE)
    reading["mount"] = {"device": "/dev/sdb1", "fstype": "xfs", "options": "rw"}
    with raises_message(RaidRefusal):
        described(reading)


@in_subtests(
    "path",
    [
        *[(), ("disks",), ("disks", A), ("mount",)],
        *[("disks", A, k) for k in ("signatures", "blank", "claimed", "partitions", "kind")],
    ],
)
@in_subtests("value", [{"unmeasured": "Input/output error"}, 1])
def test_nothing_is_assumed_of_what_was_not_read(path: tuple[str, ...], value: Any) -> None:
    reading: Json = {"storage": seen()}
    place = reading
    for key in ("storage", *path)[:-1]:
        place = place[key]
    place[("storage", *path)[-1]] = value
    with raises_message(RaidRefusal):
        steps(asked(), reading["storage"])


def test_arrays_that_were_not_read_are_not_taken_for_none() -> None:
    reading = joined(WHOLE)
    reading["arrays"] = {"unmeasured": "Input/output error"}
    with raises_message(RaidRefusal):
        described(reading)


def single(**of_a: Any) -> Json:
    """One disk alone."""
    reading = seen(**of_a)
    del reading["disks"][B]
    return reading


def test_single_disk_needs_no_array() -> None:
    assert described(single(), disks=[A]) == [f"make ext4 on {A}"]
    assert described(single(signatures=[SOLE], blank=False), disks=[A]) == []


def test_mount_of_somebody_else_must_be_there() -> None:
    with raises_message(RaidRefusal):
        described(single(), disks=[])
    reading = single()
    reading["mount"] = {"device": "10.0.0.9:/models", "fstype": "nfs4", "options": "rw"}
    assert described(reading, disks=[]) == []


@in_subtests(
    "raw",
    [
        {"disks": [A, A]},
        {"disks": ["nvme0n1"]},
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
