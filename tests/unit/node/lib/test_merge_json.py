"""Merging into somebody else's JSON file: their keys survive, and what is odd is left alone."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from b200kit.node.lib import managed_files, merge_json, user_file
from tests.messages import assert_message

Run = Callable[..., tuple[int, str, str]]
CDI = {"features": {"cdi": True}}
DIRS = {"cdi-spec-dirs": ["/etc/cdi", "/var/run/cdi"]}


@pytest.fixture(autouse=True)
def backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Backups under the test's folder; owners are not changed, so that any user may run this."""
    monkeypatch.setattr(user_file, "BACKUPS", tmp_path / "backup")
    monkeypatch.setattr(shutil, "chown", lambda *_: None)
    return tmp_path / "backup"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is."""
    return tmp_path / "etc" / "daemon.json"


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command as the controller does: exit status, stdout, stderr."""

    def merged(**document: Any) -> tuple[int, str, str]:
        asked = {"path": str(path), "set": CDI, "extend": DIRS, **document}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
        code = merge_json.main([])
        said = capsys.readouterr()
        return code, said.out, said.err

    return merged


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Lay a user's file down."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def written(path: Path) -> tuple[int, ...]:
    """What tells a file that somebody wrote from one that was only read."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_mtime_ns, found.st_ctime_ns


USERS = """{
  "data-root": "/srv/docker",
  "features": {
    "buildkit": true
  },
  "log-opts": {"max-size": "10m"},
  "bip": "10.1.0.1/24"
}
"""


def test_a_users_keys_survive_in_their_order_and_indentation(path: Path, run: Run) -> None:
    put(path, USERS)
    assert run() == (0, '{"changed": ["features.cdi"]}\n', "")
    after = path.read_text()
    wanted = json.loads(USERS)
    wanted["features"]["cdi"] = True
    assert json.loads(after) == wanted
    assert list(json.loads(after)) == list(json.loads(USERS))
    assert '\n  "data-root"' in after


def test_a_second_run_writes_nothing(path: Path, run: Run) -> None:
    put(path, USERS)
    run()
    before = path.stat().st_ino
    assert run() == (0, '{"changed": []}\n', "")
    assert path.stat().st_ino == before


def test_a_missing_file_and_an_empty_one_become_ours(path: Path, run: Run, backups: Path) -> None:
    for before in (None, "", " \n"):
        path.unlink(missing_ok=True)
        if before is not None:
            put(path, before)
        assert run()[0] == 0
        assert json.loads(path.read_text()) == CDI
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [kept.read_text() for kept in backups.iterdir()] == [""]


def test_rights_are_kept_and_the_first_version_is_kept_once(
    path: Path, run: Run, backups: Path
) -> None:
    put(path, USERS, 0o640)
    run()
    put(path, '{"features": {"cdi": false}}', 0o640)
    run()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    kept = list(backups.iterdir())
    assert [file.read_text() for file in kept] == [USERS]
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["daemon.json"]


def test_lists_that_are_there_grow_and_none_is_added(path: Path, run: Run) -> None:
    put(path, '{"cdi-spec-dirs": ["/opt/cdi", "/etc/cdi"], "features": {"cdi": true}}')
    assert json.loads(run()[1]) == {"changed": ["cdi-spec-dirs"]}
    assert json.loads(path.read_text())["cdi-spec-dirs"] == ["/opt/cdi", "/etc/cdi", "/var/run/cdi"]


def test_what_is_owed_is_marked_before_the_file_changes(
    path: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, USERS)
    marker = tmp_path / "pending" / "restart:docker.service"
    replaced = os.replace

    def cut(source: str, target: Path) -> None:
        if Path(target) == path:
            raise KeyboardInterrupt
        replaced(source, target)

    monkeypatch.setattr(os, "replace", cut)
    with pytest.raises(KeyboardInterrupt):
        run(markers=[str(marker)])
    assert marker.exists()
    assert path.read_text() == USERS
    assert [entry.name for entry in path.parent.iterdir()] == ["daemon.json"]


def test_no_change_marks_nothing(path: Path, run: Run, tmp_path: Path) -> None:
    put(path, json.dumps(CDI))
    run(markers=[str(tmp_path / "pending" / "x")])
    assert not (tmp_path / "pending").exists()


BROKEN = {
    "cut": '{"a": 1',
    "comma": '{"a": 1,}',
    "list": '["a"]',
    "text": '"a"',
    "null": "null",
    "twice": '{"a": 1, "a": 2}',
    "no number": '{"a": NaN}',
    "features": '{"features": ["cdi"]}',
    "dirs": '{"cdi-spec-dirs": "/etc/cdi"}',
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_merged_is_one_line_and_changes_nothing(
    text: str, path: Path, run: Run, tmp_path: Path, backups: Path
) -> None:
    put(path, text)
    before = written(path)
    code, out, err = run(markers=[str(tmp_path / "pending" / "x")])
    assert (code, out) == (1, "")
    assert err.startswith(f"b200kit: {path}: ")
    assert err.endswith("; nothing was changed\n")
    assert err.count("\n") == 1
    assert (path.read_text(), written(path)) == (text, before)
    assert not (tmp_path / "pending").exists()
    assert not backups.exists()


def test_a_link_a_folder_and_anothers_file_are_left_alone(
    path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path.with_name("real.json"), "{}")
    path.symlink_to("real.json")
    assert_message(run()[2])
    path.unlink()
    path.mkdir()
    assert_message(run()[2])
    path.rmdir()
    put(path, "{}")
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: 4711)
        assert "not to root" in run()[2]
    monkeypatch.setattr(managed_files, "owner", lambda _: "root:4711")
    assert "has no name" in run()[2]
    assert {entry.read_text() for entry in path.parent.iterdir()} == {"{}"}


def test_bytes_that_are_no_text_are_left_alone(path: Path, run: Run) -> None:
    put(path, "")
    path.write_bytes(b'{"a": "\xff"}')
    code, _, err = run()
    assert code == 1
    assert "can't decode byte" in err
    assert path.read_bytes() == b'{"a": "\xff"}'


def test_a_byte_order_mark_is_no_error(path: Path, run: Run) -> None:
    put(path, "")
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert run()[0] == 0
    assert json.loads(path.read_text()) == {"a": 1, **CDI}


def test_what_the_program_refuses_is_not_written(path: Path, run: Run, tmp_path: Path) -> None:
    put(path, USERS)
    judge = tmp_path / "judge"
    judge.write_text('#!/bin/sh\ngrep -q cdi "$1" || exit 9\necho "unknown key cdi" >&2\nexit 1\n')
    judge.chmod(0o755)
    code, _, err = run(check=[str(judge)])
    assert code == 1
    assert_message(err)
    assert "No such file" in run(check=[str(tmp_path / "absent")])[2]
    assert path.read_text() == USERS


KEYS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["features", "cdi"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
OBJECTS = st.dictionaries(KEYS, JSON, max_size=6)
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def leaves(value: Any, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Path to value of everything in an object that is no object with something in it."""
    if not isinstance(value, dict) or not value:
        return {above: value}
    return {p: v for key, part in value.items() for p, v in leaves(part, (*above, key)).items()}


@QUIET
@given(before=OBJECTS, indent=st.sampled_from([None, 1, 2, 4, "\t"]), ascii_only=st.booleans())
def test_every_key_but_ours_survives_in_every_file(
    tmp_path: Path, before: dict[str, Any], indent: int | str | None, ascii_only: bool
) -> None:
    path = tmp_path / "any.json"
    text = json.dumps(before, indent=indent, ensure_ascii=ascii_only)
    path.write_text(text)
    try:
        changed = merge_json.merge_file({"path": str(path), "set": CDI})
    except user_file.FileRefused:
        assert not isinstance(before.get("features", {}), dict)
        assert path.read_text() == text
        return
    after = json.loads(path.read_text())
    ours = ("features", "cdi")
    assert after["features"]["cdi"] is True
    kept = {path: value for path, value in leaves(after).items() if path != ours}
    was = {
        path: value
        for path, value in leaves(before).items()
        if path[:2] != ours and path not in ((), ("features",))
    }
    assert kept == was
    assert [key for key in after if key in before] == list(before)
    assert bool(changed) is (before.get("features", {}).get("cdi") is not True)
    assert merge_json.merge_file({"path": str(path), "set": CDI}) == []


@QUIET
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_no_text_whatever_is_changed_unless_it_is_a_json_object(tmp_path: Path, text: str) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(text.encode())
    try:
        merge_json.merge_file({"path": str(path), "set": CDI})
    except user_file.FileRefused:
        assert path.read_bytes() == text.encode()
    else:
        plain = text.encode().decode("utf-8-sig")
        assert not plain.strip() or isinstance(json.loads(plain), dict)
