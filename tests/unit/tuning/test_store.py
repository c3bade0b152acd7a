"""The file of a tuning's cells: whole lines or none, whatever ends the writer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from b200kit.node.lib.documents import Malformed
from b200kit.records import tuning as store
from b200kit.records.tuning import CellLine, Layout, LayoutLine, TuningCell
from b200kit.run import jsonl

LAYOUT = Layout(1, 8, 1, False, 2048, 8, ("C",))


def line(rate: float) -> CellLine:
    """A cell that was not tried, at some rate."""
    return CellLine("k", TuningCell(LAYOUT, "chat", rate, "skipped", "made up"))


LINE = line(4.0)


def test_lines_come_back_in_their_order(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        store.append(tmp_path, "n01", line(rate))
    store.append(tmp_path, "n01", up := LayoutLine(LAYOUT, 3.0, "2026-11-22T00:00:00Z"))
    assert store.read(tmp_path, "n01") == [line(4.0), line(8.0), up]
    assert store.read(tmp_path, "n02") == []


def test_file_cut_anywhere_loses_the_last_line_alone_and_goes_on(tmp_path: Path) -> None:
    for rate in (4.0, 8.0):
        store.append(tmp_path, "n01", line(rate))
    path = jsonl.path_of(tmp_path, "n01")
    content = path.read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) - 1):
        path.write_bytes(content[:size])
        assert len(store.read(tmp_path, "n01")) == 1
    store.append(tmp_path, "n01", line(16.0))
    assert store.read(tmp_path, "n01") == [line(4.0), line(16.0)]


@pytest.mark.parametrize("junk", ["[]", "\xff\xfe", "nul\0l", '{"half'])
def test_what_is_no_line_is_passed_over(tmp_path: Path, junk: str) -> None:
    store.append(tmp_path, "n01", LINE)
    with jsonl.path_of(tmp_path, "n01").open("ab") as file:
        file.write(junk.encode("latin-1") + b"\n")
    assert len(store.read(tmp_path, "n01")) == 1


@pytest.mark.parametrize("schema", ["b200kit/tuning-line/1", "other"])
def test_line_of_another_schema_is_refused_with_the_file(tmp_path: Path, schema: str) -> None:
    store.append(tmp_path, "n01", LINE)
    path = jsonl.path_of(tmp_path, "n01")
    path.write_text(path.read_text().replace(LINE.schema, schema))
    with pytest.raises(Malformed, match=rf"^{path}: line 1: of schema '{schema}'"):
        store.read(tmp_path, "n01")


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
