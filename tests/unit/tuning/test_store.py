"""The file of a tuning's cells: whole lines or none, whatever ends the writer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from b200kit.run import jsonl
from b200kit.tuning import store

LINE = {"kind": "cell", "key": "k", "cell": {"rate": 4.0}}


def test_lines_come_back_in_their_order(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        store.append(tmp_path, "n01", {**LINE, "cell": {"rate": rate}})
    store.append(tmp_path, "n01", {"kind": "layout", "layout": {}, "seconds": 3.0})
    found = store.read(tmp_path, "n01")
    assert [line["kind"] for line in found] == ["cell", "cell", "layout"]
    assert [line["cell"]["rate"] for line in found[:2]] == [4.0, 8.0]
    assert store.read(tmp_path, "n02") == []


def test_file_cut_anywhere_loses_the_last_line_alone_and_goes_on(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        store.append(tmp_path, "n01", {**LINE, "cell": {"rate": rate}})
    path = jsonl.path_of(tmp_path, "n01")
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) - 1):
        path.write_bytes(content[:size])
        assert len(store.read(tmp_path, "n01")) == 1
    store.append(tmp_path, "n01", {**LINE, "cell": {"rate": 16.0}})
    assert [line["cell"]["rate"] for line in store.read(tmp_path, "n01")] == [4.0, 16.0]


@pytest.mark.parametrize("junk", ["[]", "{}", '{"schema": "other"}', "\xff\xfe", "nul\0l"])
def test_what_is_no_line_of_ours_is_passed_over(tmp_path: Path, junk: str) -> None:
    store.append(tmp_path, "n01", LINE)
    with jsonl.path_of(tmp_path, "n01").open("ab") as file:
        file.write(junk.encode("latin-1") + b"\n")
    assert len(store.read(tmp_path, "n01")) == 1


def test_line_that_does_not_fit_on_the_disk_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(tmp_path, "n01", LINE)
    before = jsonl.path_of(tmp_path, "n01").read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with pytest.raises(OSError, match="No space left on device"):
        store.append(tmp_path, "n01", LINE)
    assert jsonl.path_of(tmp_path, "n01").read_bytes() == before


def test_it_lies_beside_the_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(store.VARIABLE, raising=False)
    assert store.directory().name == "tuning"
    assert store.directory("/srv/fleet/records") == Path("/srv/fleet/tuning")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    assert store.directory() == tmp_path


def test_line_is_on_the_disk_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store.append(tmp_path, "n01", LINE)
    # The file, and the folder that now has its name.
    assert len(synced) == 2
    assert json.loads(jsonl.path_of(tmp_path, "n01").read_text())["key"] == "k"
