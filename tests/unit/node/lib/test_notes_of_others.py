"""What another user wrote is read with care, and never instead of a reading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from b200kit.node.lib import documents, managed_files
from b200kit.node.lib.readings import is_unmeasured


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
