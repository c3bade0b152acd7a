"""The site's one file: killed, full, rotten, old, gone or shared, it holds and loses nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from b200kit.store import claims, database
from b200kit.store.database import Damaged, Store, StoreError
from b200kit.store.local_disk import Mount, mount_of
from tests.messages import assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit import full_disk
from tests.unit.conftest import ON_THE_DISK

ROOT = Path(__file__).resolve().parents[3]
SUBJECTS = ("n1", "n2", "n3")
PAGE = 4096


def content(path: Path) -> dict[str, list[str]]:
    """The texts about each subject."""
    store = Store(path)
    return {s: [line.text for line in store.read("log", s)] for s in store.subjects("log")}


def filled(path: Path, count: int = 60) -> Store:
    """A store with lines about three nodes in turn, which fill some pages."""
    store = Store(path)
    with store.writing():
        for number in range(count):
            store.append("log", SUBJECTS[number % 3], f'"{number} {"x" * 300}"')
    return store


def test_lines_come_back_in_their_order_and_readers_make_no_file(tmp_path: Path) -> None:
    path = tmp_path / "site" / "b200.db"
    store = Store(path)
    assert (store.subjects("log"), store.read("log", "n1"), store.newest("log", "n1")) == (
        [],
        [],
        None,
    )
    assert not path.parent.exists()
    first = store.append("log", "n1", "1")
    store.append("log", "n2", "2")
    store.append("other", "n1", "3")
    last = store.append("log", "n1", "4")
    for seen in (store, Store(path)):
        assert [line.text for line in seen.read("log", "n1")] == ["1", "4"]
        assert seen.newest("log", "n1") == last
        assert seen.subjects("log") == ["n1", "n2"]
        assert [line.number for line in seen.all_of("log")] == [1, 2, 4]
        assert seen.last.digest == last.digest != first.digest
    assert sorted(p.name for p in path.parent.iterdir()) == ["b200.db", "b200.db.newest"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_all_that_is_written_together_is_there_or_none_of_it(tmp_path: Path) -> None:
    store = filled(tmp_path / "b200.db", 3)
    before = content(store.path)

    def fail() -> None:
        with store.writing():
            store.append("log", "n1", '"lost"')
            assert store.read("log", "n1")[-1].text == '"lost"'
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(store.path) == before
    assert store.newest("log", "n1") == Store(store.path).newest("log", "n1")
    assert store.append("log", "n1", '"kept"').number == 4


def test_commit_is_on_the_disk_before_writing_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SYNCHRONOUS", ON_THE_DISK)
    with Store(tmp_path / "b200.db").writing() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


WRITER = """
import sys
from pathlib import Path
from b200kit.store.database import Store
store = Store(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.append("log", sys.argv[3], str(number))
    print(number, flush=True)
"""


def writer(path: Path, count: int, subject: str) -> subprocess.Popen[str]:
    """A process that appends lines, and says each that is on the disk."""
    command = [sys.executable, "-c", WRITER, str(path), str(count), subject]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "deploy")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_write_one_chain(tmp_path: Path) -> None:
    both = [writer(tmp_path / "b200.db", 20, subject) for subject in ("n1", "n2")]
    for process in both:
        assert process.communicate(timeout=300)[0]
        assert process.returncode == 0
    numbers = [*map(str, range(20))]
    assert content(tmp_path / "b200.db") == {"n1": numbers, "n2": numbers}
    assert Store(tmp_path / "b200.db").faults() == []


def dying(act: Callable[[], object], at: int) -> bool:
    """Run *act* in a process that is killed at its statement *at*; whether it came so far."""
    child = os.fork()
    if child == 0:
        try:
            _kill_at(at)
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _kill_at(at: int) -> None:
    left, connect = iter(range(at)), sqlite3.connect

    def step() -> int:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def connected(*args: object, **options: object) -> sqlite3.Connection:
        connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_progress_handler(step, 1)  # before every step of every statement
        return connection  # type: ignore[no-any-return]

    database.sqlite3 = _Module(connected)  # type: ignore[assignment, attr-defined]


class _Module:
    """The module, with another `connect`."""

    def __init__(self, connect: Callable[..., sqlite3.Connection]) -> None:
        self.connect = connect

    def __getattr__(self, name: str) -> object:
        return getattr(sqlite3, name)


@pytest.mark.parametrize("is_new", [True, False])
def test_killed_in_any_statement_it_has_all_of_it_or_nothing(is_new: bool, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    if not is_new:
        filled(kept / "b200.db", 2)
    before = content(kept / "b200.db")

    def act() -> None:
        store = Store(path)
        with store.writing():
            store.append("log", "n1", '"a"')
            store.append("log", "n2", '"b"')

    seen, at, is_over = set[int](), 0, False
    while not is_over:
        folder = tmp_path / f"{at}"
        shutil.copytree(kept, folder)
        path = folder / "b200.db"
        is_over = not dying(act, at)
        found = content(path)
        added = {s: len(lines) - len(before.get(s, [])) for s, lines in found.items()}
        assert sum(added.values()) in (0, 2), at
        assert all(
            lines[: len(before.get(s, []))] == before.get(s, []) for s, lines in found.items()
        )
        assert Store(path).faults() == [], at
        assert Store(path).append("log", "n1", '"on"').text == '"on"'
        seen.add(sum(added.values()))
        at += 11
        shutil.rmtree(folder)
    assert seen == {0, 2}
    assert at > 70


def test_full_disk_is_one_line_and_costs_nothing_that_was_written(tmp_path: Path) -> None:
    said = full_disk.alone_with(tmp_path, _fill)
    assert_message(said)


def _fill(disk: Path) -> str:
    """Lines until none fits any more, then more room; returns what was refused last."""
    path = disk / "b200.db"
    store = filled(path, 6)
    before, refusals = content(path), list[str]()
    full_disk.fill(disk, but=4096)
    for number in range(9):
        try:
            store.append("log", "n1", f'"{number} {"x" * 3000}"')
        except Damaged:
            raise
        except StoreError as refused:
            refusals.append(str(refused))
        assert {s: lines[: len(before[s])] for s, lines in content(path).items()} == before
    full_disk.empty(disk)
    assert store.append("log", "n1", '"on"')
    assert Store(path).faults() == []
    return refusals[-1].replace(str(disk), "DISK")


@in_subtests("page", range(9))
def test_bit_that_turned_in_a_page_is_named_or_changes_nothing(
    page: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = filled(tmp_path_factory.mktemp("site") / "b200.db").path
    before, whole = content(path), path.read_bytes()
    assert len(whole) > 9 * PAGE
    lines, more = list[str](), '"more"'
    for at in (
        *range(page * PAGE, page * PAGE + 112),
        *range(page * PAGE + 112, (page + 1) * PAGE, 61),
    ):
        turned = bytes([whole[at] ^ (1 << at % 8)])
        path.write_bytes(whole[:at] + turned + whole[at + 1 :])
        try:
            if at % 9 == 0:
                Store(path).append("log", "n1", more)
            found = content(path)
            if at % 9 == 0:
                assert found["n1"].pop() == more, at
            assert found == before, at
        except StoreError as error:
            lines.append(str(error))
    assert len(lines) > 80
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in lines)


MOVES = ((7, 100), (8, 7), (100, 8))
LOST: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(b"\x91x{" * 9000),
    "cut off": lambda path: os.truncate(path, path.stat().st_size - PAGE),
    "cut in a page": lambda path: os.truncate(path, PAGE + 100),
    "another program's": lambda path: _replaced(path, "CREATE TABLE x (y)"),
    "of a later release": lambda path: rewrite(path, "PRAGMA user_version=2"),
    "without its tables": lambda path: rewrite(path, "DROP TABLE entry", "DROP TABLE body"),
    "its end taken away": lambda path: rewrite(path, "DELETE FROM entry WHERE number > 57"),
    "its texts taken away": lambda path: rewrite(path, "DELETE FROM body WHERE number > 57"),
    "a line taken away": lambda path: rewrite(path, "DELETE FROM entry WHERE number = 7"),
    "two lines exchanged": lambda path: rewrite(
        path, *(f"UPDATE entry SET number = {to} WHERE number = {of}" for of, to in MOVES)
    ),
    "a line put in": lambda path: rewrite(
        path, "INSERT INTO entry SELECT 61, log, subject, sha256, digest FROM entry WHERE number=60"
    ),
    "a line given to another node": lambda path: rewrite(
        path, "UPDATE entry SET subject = 'n1' WHERE number = 59"
    ),
    "a text changed": lambda path: rewrite(path, "UPDATE body SET text = '{}' WHERE number = 9"),
    "a text changed and signed again": lambda path: _forged(path),
}


def rewrite(path: Path, *statements: str) -> None:
    """The file, changed by a program that knows SQL."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def _replaced(path: Path, statement: str) -> None:
    path.unlink()
    rewrite(path, statement)


def _forged(path: Path) -> None:
    """A line with another text, and the digests that this text has."""
    connection = sqlite3.connect(path)
    [(previous,)] = connection.execute("SELECT digest FROM entry WHERE number = 8")
    sha256 = database._sha256("{}")
    digest = database._digest(previous, 9, "log", "n3", sha256)
    connection.execute("UPDATE body SET text = '{}' WHERE number = 9")
    connection.execute("UPDATE entry SET sha256 = ?, digest = ? WHERE number = 9", (sha256, digest))
    connection.commit()
    connection.close()


@in_subtests("name", LOST)
def test_store_that_is_not_what_was_written_is_named_and_not_written_to(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = filled(tmp_path_factory.mktemp("site") / "b200.db").path
    LOST[name](path)
    left = path.read_bytes() if path.exists() else None
    with raises_message(StoreError, SITE=path.parent):
        content(path)
    assert Store(path).faults()
    if "text" not in name:
        with pytest.raises(StoreError):
            Store(path).append("log", "n1", "{}")
        assert (path.read_bytes() if path.exists() else None) == left


def test_older_copy_that_was_put_back_is_named_and_the_newest_goes_on(tmp_path: Path) -> None:
    store = filled(tmp_path / "b200.db")
    older = store.path.read_bytes()
    store.append("log", "n1", '"newer"')
    newest = store.path.read_bytes()
    store.path.write_bytes(older)
    for of in (store, Store(store.path)):  # the run that wrote it, and another one
        with pytest.raises(Damaged, match="line 61"):
            of.append("log", "n1", "{}")
    store.path.write_bytes(newest)
    assert Store(store.path).append("log", "n1", "{}").number == 62
    # A person who has no newer one says so.
    store.path.write_bytes(older)
    store.beside("newest").unlink()
    assert Store(store.path).append("log", "n1", "{}").number == 61


def test_newest_that_cannot_be_read_holds(tmp_path: Path) -> None:
    store = filled(tmp_path / "b200.db", 3)
    store.beside("newest").write_bytes(b"")
    with raises_message(Damaged):
        Store(store.path).subjects("log")


def test_writer_killed_before_its_first_line_leaves_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "b200.db"
    path.touch()
    assert content(path) == {}
    assert Store(path).append("log", "n1", "1").number == 1


KINDS = ("cifs", "smb3", "ceph", "9p", "lustre")
MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
31 22 0:44 / /home rw,relatime shared:1 - nfs4 server:/home rw,nolock
32 31 8:2 / /home/local\\040disk rw - xfs /dev/sdb1 rw
33 22 0:51 / /mnt rw - fuse.sshfs far:/ rw
34 22 0:52 / /run/user/0/lower rw - fuse.fuse-overlayfs overlay rw
"""
MOUNTS += "".join(f"9 1 0:9 / /mnt/{kind} rw - {kind} x rw\n" for kind in KINDS)


@in_subtests(
    ("folder", "kind", "is_shared"),
    [
        ("/home/you/site", "nfs4", True),
        ("/home/local disk/site", "xfs", False),
        ("/homes/site", "ext4", False),
        ("/mnt/site", "fuse.sshfs", True),
        ("/run/user/0/lower/site", "fuse.fuse-overlayfs", False),
        *((f"/mnt/{kind}", kind, True) for kind in KINDS),
    ],
)
def test_mount_of_a_directory_is_found(folder: str, kind: str, is_shared: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda path, encoding: MOUNTS)
        found = mount_of(Path(folder))
    assert (found.kind, found.is_shared) == (kind, is_shared)


def test_network_file_system_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "mount_of", lambda folder: Mount("/home", "nfs4"))
    for act in (content, filled):
        with raises_message(StoreError, SITE=tmp_path):
            act(tmp_path / "b200.db")
    assert list(tmp_path.iterdir()) == []


def test_claim_is_one_s_until_its_process_ends_even_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / "claims"
    assert not claims.is_taken(path, 3)
    handle = claims.take(path, 3)
    assert (claims.is_taken(path, 3), claims.is_taken(path, 4)) == (True, False)
    with pytest.raises(OSError, match="claims"):
        claims.take(path, 3)
    other = claims.take(path, 4)
    os.close(handle)
    assert (claims.is_taken(path, 3), claims.is_taken(path, 4)) == (False, True)
    os.close(other)
