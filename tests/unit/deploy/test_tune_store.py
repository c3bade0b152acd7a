"""The file of a tuning's cells: whole lines or none, whatever ends the writer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deploy import tune_store

LINE = {"kind": "cell", "key": "k", "cell": {"rate": 4.0}}


def test_lines_come_back_in_their_order(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        tune_store.append(tmp_path, "n01", {**LINE, "cell": {"rate": rate}})
    tune_store.append(tmp_path, "n01", {"kind": "layout", "layout": {}, "seconds": 3.0})
    found = tune_store.read(tmp_path, "n01")
    assert [line["kind"] for line in found] == ["cell", "cell", "layout"]
    assert [line["cell"]["rate"] for line in found[:2]] == [4.0, 8.0]
    assert tune_store.read(tmp_path, "n02") == []


def test_file_cut_anywhere_loses_the_last_line_alone_and_goes_on(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        tune_store.append(tmp_path, "n01", {**LINE, "cell": {"rate": rate}})
    path = tune_store.path_of(tmp_path, "n01")
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) - 1):
        path.write_bytes(content[:size])
        assert len(tune_store.read(tmp_path, "n01")) == 1
    tune_store.append(tmp_path, "n01", {**LINE, "cell": {"rate": 16.0}})
    assert [line["cell"]["rate"] for line in tune_store.read(tmp_path, "n01")] == [4.0, 16.0]


@pytest.mark.parametrize("junk", ["[]", "{}", '{"schema": "other"}', "\xff\xfe", "nul\0l"])
def test_what_is_no_line_of_ours_is_passed_over(tmp_path: Path, junk: str) -> None:
    tune_store.append(tmp_path, "n01", LINE)
    with tune_store.path_of(tmp_path, "n01").open("ab") as file:
        file.write(junk.encode("latin-1") + b"\n")
    assert len(tune_store.read(tmp_path, "n01")) == 1


def test_line_that_does_not_fit_on_the_disk_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune_store.append(tmp_path, "n01", LINE)
    before = tune_store.path_of(tmp_path, "n01").read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    with pytest.raises(OSError, match="no room"):
        tune_store.append(tmp_path, "n01", LINE)
    assert tune_store.path_of(tmp_path, "n01").read_bytes() == before


def test_it_lies_beside_the_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(tune_store.VARIABLE, raising=False)
    assert tune_store.directory().name == "tuning"
    assert tune_store.directory("/srv/fleet/records") == Path("/srv/fleet/tuning")
    monkeypatch.setenv(tune_store.VARIABLE, str(tmp_path))
    assert tune_store.directory() == tmp_path


def test_line_is_on_the_disk_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    tune_store.append(tmp_path, "n01", LINE)
    # The file, and the folder that now has its name.
    assert len(synced) == 2
    assert json.loads(tune_store.path_of(tmp_path, "n01").read_text())["key"] == "k"
