"""Managed files, secrets, and what earlier runs left."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path

import pytest

from b200kit.node.lib import documents, durable_files, managed_files
from b200kit.node.lib.readings import is_unmeasured


def test_file_link_directory_and_absence_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "l").symlink_to("f")
    paths = [str(tmp_path / name) for name in ("f", "l", "absent")]
    plain, link, absent = managed_files.files([*paths], {}).values()
    assert plain["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert plain["mode"] == "0640"
    assert ":" in plain["owner"]
    assert link == {"link": "f"}
    assert absent is None
    assert managed_files.files([str(tmp_path)], {})[str(tmp_path)]["directory"] is True


def test_secret_shows_only_a_digest_keyed_by_the_nonce(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"hunter2")
    reading = managed_files.files([], {str(path): "00ff"})[str(path)]
    assert reading["hmac"] == hmac.new(b"\x00\xff", b"hunter2", "sha256").hexdigest()
    assert "sha256" not in reading


def test_bad_nonce_is_a_reading_and_not_a_crash(tmp_path: Path) -> None:
    assert "unmeasured" in managed_files.files([], {str(tmp_path): "no hex"})[str(tmp_path)]


def test_notes_are_null_unreadable_or_their_content(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text("{")
    (tmp_path / "warm-1.json").write_text('{"rounds": 3}')
    notes = managed_files.notes(tmp_path)
    assert notes["smoke"] is None
    assert "unmeasured" in notes["verdict"]
    assert notes["warm"] == {"1": {"rounds": 3}}


def test_write_is_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "new" / "verdict.json"
    for content in ("{}", '{"fit": "fit"}'):
        durable_files.replace(path, content, mode=0o600)
    assert json.loads(path.read_text()) == {"fit": "fit"}
    assert [entry.name for entry in path.parent.iterdir()] == ["verdict.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_documents_are_found_by_number(tmp_path: Path) -> None:
    for name in ("0", "11", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "11" / "probe.json").write_text('{"a": 1}')
    assert managed_files.of_each(tmp_path, "probe.json") == {"0": None, "11": {"a": 1}}
    assert managed_files.of_each(tmp_path / "none", "probe.json") == {}


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "large", "deep", "no JSON", "binary"])
def test_what_is_no_small_document_is_unmeasured(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "0" / "probe.json"
    path.parent.mkdir()
    texts = {
        "large": " " * documents.MOST_BYTES + "1",
        "deep": "[" * (documents.MOST_BYTES - 1),
        "no JSON": "{",
    }
    if kind in texts:
        path.write_text(texts[kind])
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\xfd")
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert is_unmeasured(managed_files.of_each(tmp_path, "probe.json")["0"])
