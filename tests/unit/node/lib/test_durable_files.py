"""Files replaced in one step: rights, directories, and that they are on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from b200kit.node.lib import durable_files


def test_file_and_its_name_are_on_the_disk_before_replace_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.path.isdir(f"/proc/self/fd/{handle}"))
    )
    durable_files.replace(tmp_path / "x", "content")
    assert synced == [False, True]
    durable_files.remove(tmp_path / "x")
    assert synced == [False, True, True]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "folder"), [(0o600, 0o700), (0o644, 0o755)])
def test_rights_are_exact_whatever_the_umask(tmp_path: Path, mode: int, folder: int) -> None:
    path = tmp_path / "new" / "x"
    before = os.umask(0o077)
    try:
        durable_files.replace(path, "content", mode)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (mode, folder)
