"""The node program is the same file wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import io
import tomllib
import zipfile
from pathlib import Path

import pytest

from b200kit.run import zipapp
from b200kit.run.places import CHECKOUT
from tests.messages import raises_message


def test_its_bytes_follow_from_its_sources_alone() -> None:
    data, digest = zipapp.build()
    assert hashlib.sha256(data).hexdigest() == digest
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    assert {entry.date_time for entry in entries} == {zipapp.EPOCH}
    assert {entry.external_attr for entry in entries} == {0o644 << 16}
    assert [entry.filename for entry in entries] == sorted(zipapp.contents())


def test_every_library_in_it_is_locked_and_pinned() -> None:
    own = ("__main__.py", "compiled.py", "b200kit/")
    others = {name for name in zipapp.contents() if not name.startswith(own)}
    assert others == {line.split()[1] for line in zipapp.lock_lines()}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert {*zipapp.LOCK.read_text().splitlines()[0].split()[1:]} <= {*project["dependencies"]}


@pytest.mark.parametrize("path", ["pynvml.py", "yaml/scanner.py", "yaml/more.py", "nosuch.py"])
def test_other_content_than_is_locked_makes_no_program(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = zipapp.LOCK.read_text().partition("\n")[0]
    (tmp_path / "node.txt").write_text(f"{versions}\n{'0' * 64}  {path}\n")
    monkeypatch.setattr(zipapp, "LOCK", tmp_path / "node.txt")
    with raises_message(zipapp.LibraryRefused):
        zipapp.contents()
