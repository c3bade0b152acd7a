"""What dpkg left unfinished, and who holds its locks, read from files and the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit.node.facts import dpkg
from tests.messages import assert_message

LISTING = """\
bash\t5.2.15-2+b8\tii 
nvidia-open\t580.126.20-1\thi 
libnvidia-nscq\t580.126.20-1\trc 
gone\t1\tun 
nvlsm\t2025.10.11-1\tiU 
nvidia-kernel-open-dkms\t580.126.20-1\tiF 
man-db\t2.11.2-2\tit 
libfoo\t1-1\tiHR
torn\t1-1\tiiR
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node's root with dpkg's folders, in place of this machine's."""
    for folder in ("var/lib/dpkg/updates", "var/lib/apt/lists", "var/cache/apt/archives"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(dpkg, "ROOT", tmp_path)
    return tmp_path


def test_packages_not_fully_installed_are_told_with_their_status() -> None:
    assert dpkg.broken(LISTING) == {
        "libfoo": "iHR",
        "man-db": "it",
        "nvidia-kernel-open-dkms": "iF",
        "nvlsm": "iU",
        "torn": "iiR",
    }


def test_only_numbered_files_of_the_journal_mean_an_interruption(root: Path) -> None:
    updates = root / dpkg.UPDATES
    assert dpkg.interrupted() is False
    (updates / "tmp.i").touch()
    assert dpkg.interrupted() is False
    (updates / "0001").touch()
    assert dpkg.interrupted() is True


def test_node_without_dpkg_is_unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpkg, "ROOT", tmp_path)
    reading = dpkg.dpkg(lambda: {"unmeasured": "dpkg-query is not there"})
    assert "unmeasured" in reading["interrupted"]
    assert_message(reading["broken"]["unmeasured"])


LOCKER = """
import fcntl, sys, time
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(params=dpkg.LOCKS)
def locker(root: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A process that holds one of the locks; its id."""
    (root / f"proc/{os.getpid()}").mkdir(parents=True)
    argv = [sys.executable, "-c", LOCKER, str(root / request.param)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_holder_of_a_lock_is_named_by_the_kernel(root: Path, locker: int) -> None:
    entry = root / f"proc/{locker}"
    entry.mkdir()
    (entry / "cmdline").write_bytes(b"/usr/bin/apt-get\0dist-upgrade\0-y\0")
    assert dpkg.holder() == f"process {locker} (/usr/bin/apt-get dist-upgrade -y)"


@pytest.mark.parametrize("locker", [dpkg.DPKG_LOCK], indirect=True)
def test_dpkg_at_work_is_not_interrupted(root: Path, locker: int) -> None:
    del locker
    (root / dpkg.UPDATES / "0001").touch()
    assert dpkg.interrupted() is False


def test_free_locks_have_no_holder_and_asking_takes_none(root: Path) -> None:
    for name in dpkg.LOCKS:
        (root / name).touch()
    assert dpkg.holder() is None
    assert dpkg.holder() is None


def test_locks_that_do_not_exist_have_no_holder(root: Path) -> None:
    del root
    assert dpkg.holder() is None


def test_process_that_is_gone_is_told_by_its_number(root: Path) -> None:
    del root
    assert_message(dpkg.command_line(4242))
