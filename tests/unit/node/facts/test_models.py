"""What an observation says of models: cheaply by their record, or by every byte when asked."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import models
from b200kit.node.gate import parts
from b200kit.node.state.expectation import Expectation
from b200kit.node.weights import fetch, model_files
from tests.messages import assert_message

FILES = {"config.json": b"{}", "weights/a.bin": b"w" * 5000}


@pytest.fixture
def revision(tmp_path: Path) -> str:
    """A model fetched from a directory, below tmp_path/models/m."""
    listed = []
    for path, content in FILES.items():
        target = tmp_path / "store" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        listed.append({"path": path, "size": len(content), "sha256": digest})
    raw = json.dumps({"files": listed}).encode()
    (tmp_path / "store" / "manifest.json").write_bytes(raw)
    name = hashlib.sha256(raw).hexdigest()
    words = ["--dest", str(tmp_path / "models" / "m" / name), "--revision", name]
    assert fetch.main(["--url", f"file://{tmp_path / 'store'}", *words]) == 0
    return name


def read(folder: Path, revision: str, **more: Any) -> dict[str, Any]:
    """The reading of a revision below folder/models."""
    ask = {"root": str(folder / "models"), "model": "m", "revision": revision, **more}
    return models.weights(ask)


def rot(path: Path) -> None:
    """Another byte on the disk, and nothing that tells of it."""
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_whole_model_has_nothing_wrong(tmp_path: Path, revision: str) -> None:
    seen = read(tmp_path, revision)
    assert seen["model"]["complete"] is True
    assert (seen["model"]["wrong"], seen["model"]["proof"]) == ({}, "record")
    [entry] = seen["revisions"]
    assert (entry["model"], entry["revision"], entry["requested"]) == ("m", revision, True)


def test_nothing_is_not_complete(tmp_path: Path) -> None:
    seen = read(tmp_path, "0" * 12)
    assert seen["model"] == {"complete": False, "bytes": 0, "proof": "record", "wrong": {}}
    assert seen["revisions"] == []


def test_record_shows_what_changed_and_the_hash_what_rotted(tmp_path: Path, revision: str) -> None:
    directory = tmp_path / "models" / "m" / revision
    rot(directory / "weights" / "a.bin")
    assert read(tmp_path, revision)["model"]["wrong"] == {}
    text = read(tmp_path, revision, hash=True)["model"]
    assert text["proof"] == "hash"
    assert_message(text["wrong"]["weights/a.bin"])
    os.utime(directory / "weights" / "a.bin")
    changed = {"weights/a.bin": "changed since it was proven"}
    assert read(tmp_path, revision)["model"]["wrong"] == changed


def test_file_among_the_weights_that_is_not_theirs_is_named(tmp_path: Path, revision: str) -> None:
    directory = tmp_path / "models" / "m" / revision
    directory.chmod(0o755)
    (directory / "evil.py").write_text("x")
    assert_message(read(tmp_path, revision)["model"]["wrong"]["evil.py"])


def test_manifest_that_is_gone_or_another_is_named(tmp_path: Path, revision: str) -> None:
    manifest = tmp_path / "models" / "m" / revision / "manifest.json"
    manifest.parent.chmod(0o755)
    manifest.chmod(0o644)
    manifest.write_text('{"files": []}')
    wrong = read(tmp_path, revision)["model"]["wrong"]
    assert "asked for" in wrong["manifest.json"]
    manifest.unlink()
    assert "manifest.json" in read(tmp_path, revision)["model"]["wrong"]


def test_nothing_is_hashed_for_an_observation(
    tmp_path: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(model_files, "sha256", refuse)
    assert read(tmp_path, revision)["model"]["wrong"] == {}


def test_drop_removes_a_revision_and_refuses_everything_else(tmp_path: Path, revision: str) -> None:
    root = tmp_path / "models"
    for path in (root, root / "m", tmp_path / "store", root / "m" / revision / "weights"):
        assert models.main(["drop", "--dest", str(path), "--root", str(root)]) == 1
        assert path.exists()
    assert models.main(["drop", "--dest", str(root / "m" / revision), "--root", str(root)]) == 0
    assert list(root.iterdir()) == []


def test_gate_reads_the_model_that_the_expectation_names() -> None:
    named = {"root": "/srv/models", "model": "m", "revision": "a" * 12}
    asked = parts(Expectation({"weights": {**named, "serving": False}}))
    assert asked["weights"] == named
    assert "weights" not in parts(Expectation({}))
