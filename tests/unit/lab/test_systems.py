"""Which operating system a lab's nodes have: chosen once, and the same for all of them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tests.lab.paths import LabError, LabPaths
from tests.lab.rootfs import recipe_stamp
from tests.lab.supply import given_rootfs
from tests.lab.supply.systems import DEFAULT, NEWER, SYSTEMS, VARIABLE, choose, system_of
from tests.messages import assert_message, raises_message


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    monkeypatch.delenv(VARIABLE, raising=False)
    return LabPaths(tmp_path, 3)


def test_nodes_that_are_there_decide_and_another_system_beside_them_is_refused(
    lab: LabPaths,
) -> None:
    choose(lab, NEWER.name)
    lab.hosts.mkdir()
    assert choose(lab) == NEWER
    with raises_message(LabError):
        choose(lab, DEFAULT.name)
    assert system_of(lab) == NEWER


def test_systems_share_neither_base_nor_stamp(tmp_path: Path) -> None:
    labs = {name: LabPaths(tmp_path, number) for number, name in enumerate(SYSTEMS)}
    for name, lab in labs.items():
        choose(lab, name)
    for made in ("base", "base_stamp"):
        assert len({getattr(lab, made).resolve() for lab in labs.values()}) == len(SYSTEMS)
    assert len({recipe_stamp(system) for system in SYSTEMS.values()}) == len(SYSTEMS)


def archive(path: Path, release: str) -> Path:
    """A root file system with nothing but an os-release."""
    with tarfile.open(path, "w:xz") as tar:
        member = tarfile.TarInfo("./usr/lib/os-release")
        member.size = len(release)
        tar.addfile(member, io.BytesIO(release.encode()))
    return path


def test_root_file_system_of_the_users_is_known_by_its_release_and_its_digest(
    lab: LabPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = archive(tmp_path / "noble.tar.xz", 'ID=ubuntu\nVERSION_ID="24.04"\n')
    monkeypatch.setenv(given_rootfs.VARIABLE, str(file))
    given = given_rootfs.named()
    assert given is not None
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (given.key, given.digest, given.python) == ("ubuntu2404", digest, "3.12")
    assert digest in given.title
    choose(lab, given=given)
    monkeypatch.delenv(given_rootfs.VARIABLE)
    lab.hosts.mkdir()
    assert choose(lab) == system_of(lab) == given
    assert given_rootfs.named() is None


@pytest.mark.parametrize(
    "release", ["ID=rocky\nVERSION_ID=9.4\nPRETTY_NAME='Rocky Linux 9.4'\n", None]
)
def test_root_file_system_that_no_node_can_have_is_refused(
    release: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "root.tar.xz"
    if release:
        archive(file, release)
    monkeypatch.setenv(given_rootfs.VARIABLE, str(file))
    with pytest.raises(LabError) as refused:
        given_rootfs.named()
    assert_message(str(refused.value).replace(str(tmp_path), "TMP"))
