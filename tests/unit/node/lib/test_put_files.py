"""Files arrive whole with their rights, markers before them; a cut leaves the old file."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib import durable_files, installed, put_files
from tests.subtests import in_subtests

MODES = [0o644, 0o755, 0o600]


def document(*files: dict[str, Any], markers: tuple[Path, ...] = ()) -> str:
    """What the controller sends over stdin."""
    return json.dumps({"markers": [str(path) for path in markers], "files": files})


def file(path: Path, content: bytes = b"new", mode: int = 0o644) -> dict[str, Any]:
    """One file of the document."""
    encoded = base64.b64encode(content).decode()
    return {"path": str(path), "content": encoded, "mode": mode, "owner": "root:root"}


def sent(monkeypatch: pytest.MonkeyPatch, text: str) -> int:
    """Run the command with this standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return put_files.main([])


@in_subtests("text", ["", "[]", "{", "[" * 100_000, '{"files": [], "files": []}'])
def test_request_that_cannot_be_read_is_a_wrong_way_of_calling(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sent(monkeypatch, text)
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.fixture(autouse=True)
def unnoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is the node's (tests/unit/node/maintenance/test_removal.py)."""
    monkeypatch.setattr(installed, "note_files", lambda *_: None)


@pytest.fixture(autouse=True)
def owners(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Owners asked for, as (file name, user, group): tests need not run as root."""
    asked: list[tuple[str, str, str]] = []

    def chown(path: str, user: str, group: str) -> None:
        asked.append((Path(path).name, user, group))

    monkeypatch.setattr(shutil, "chown", chown)
    return asked


@pytest.fixture
def umask() -> Iterator[None]:
    """A node whose login shell lets nobody else read."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("asked", MODES)
def test_content_and_mode_are_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    path = tmp_path / "x"
    assert sent(monkeypatch, document(file(path, b"\x00\xff", asked))) == 0
    assert path.read_bytes() == b"\x00\xff"
    assert mode(path) == asked


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("asked", MODES)
def test_mode_does_not_depend_on_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    sent(monkeypatch, document(file(tmp_path / "x", mode=asked)))
    assert mode(tmp_path / "x") == asked


@pytest.mark.usefixtures("umask")
def test_new_directories_can_be_entered_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(monkeypatch, document(file(tmp_path / "a" / "b" / "x")))
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o755)


def test_new_directory_above_a_secret_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(monkeypatch, document(file(tmp_path / "etc" / "secrets" / "key", mode=0o600)))
    assert mode(tmp_path / "etc" / "secrets") == 0o700
    assert mode(tmp_path / "etc") == 0o755


def test_directory_that_is_there_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o750)
    sent(monkeypatch, document(file(tmp_path / "x", mode=0o600)))
    assert mode(tmp_path) == 0o750


def test_owner_is_set_before_the_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: list[tuple[str, str, str]]
) -> None:
    entry = file(tmp_path / "x") | {"owner": "vllm:render"}
    sent(monkeypatch, document(entry))
    [(name, user, group)] = owners
    assert name.startswith(".x.")
    assert (user, group) == ("vllm", "render")


def test_owner_without_a_group_takes_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: list[tuple[str, str, str]]
) -> None:
    sent(monkeypatch, document(file(tmp_path / "x") | {"owner": "vllm"}))
    assert owners[0][1:] == ("vllm", "vllm")


def test_content_is_never_readable_by_more_people_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    def chown(path: str, user: str, group: str) -> None:
        del user, group
        seen.append((mode(Path(path)), Path(path).stat().st_size))

    monkeypatch.setattr(shutil, "chown", chown)
    sent(monkeypatch, document(file(tmp_path / "key", b"secret", 0o600)))
    assert seen == [(0o600, 0)]


def test_markers_are_written_before_the_first_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    replace = os.replace

    def recorded(source: str, target: Path) -> None:
        order.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", recorded)
    markers = (tmp_path / "pending" / "restart:a", tmp_path / "pending" / "restart:b")
    sent(monkeypatch, document(file(tmp_path / "1"), file(tmp_path / "2"), markers=markers))
    assert order == ["restart:a", "restart:b", "1", "2"]


def test_cut_between_files_leaves_marker_and_first_file_and_the_old_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, marker = tmp_path / "1", tmp_path / "2", tmp_path / "restart:x"
    second.write_bytes(b"old")
    broken = file(second) | {"content": "not base64!"}
    with pytest.raises(ValueError, match=r"base64|padding"):
        sent(monkeypatch, document(file(first), broken, markers=(marker,)))
    assert marker.exists()
    assert (first.read_bytes(), second.read_bytes()) == (b"new", b"old")


@pytest.mark.parametrize("cut", ["fsync", "replace", "fchmod"])
def test_write_that_is_cut_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def fails(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, cut, fails)
    with pytest.raises(OSError, match="No space left"):
        durable_files.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_killed_write_leaves_nothing_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        sent(monkeypatch, document(file(tmp_path / "x")))
    assert list(tmp_path.iterdir()) == []


def test_unknown_owner_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    def unknown(path: str, user: str, group: str) -> None:
        raise LookupError(f"no such user: {user!r}")

    monkeypatch.setattr(shutil, "chown", unknown)
    with pytest.raises(LookupError, match="vllm"):
        sent(monkeypatch, document(file(path) | {"owner": "vllm:vllm"}))
    assert path.read_bytes() == b"old"


def test_symbolic_link_is_replaced_and_its_target_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"precious")
    link.symlink_to(target)
    sent(monkeypatch, document(file(link)))
    assert target.read_bytes() == b"precious"
    assert not link.is_symlink()


def test_number_of_files_is_all_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent(monkeypatch, document(file(tmp_path / "x", b"canary"), file(tmp_path / "y")))
    assert capsys.readouterr() == ("2\n", "")
