"""Lines of JSON that only grow: torn ones are named, and the next begins behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.run import jsonl


def test_line_after_a_torn_one_begins_on_its_own(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.jsonl"
    jsonl.append(path, lambda _: '{"a": 1}\n')
    with path.open("ab") as file:
        file.write(b'{"b": ')
    jsonl.append(path, lambda _: '{"c": 3}\n')
    assert list(jsonl.lines(path.read_bytes())) == [(1, {"a": 1}), (2, None), (3, {"c": 3})]


def test_no_line_is_written_where_none_is_made(tmp_path: Path) -> None:
    assert jsonl.append(tmp_path / "x", lambda _: None) is False
    assert (tmp_path / "x").read_bytes() == b""


@pytest.mark.parametrize("raw", [b"[1]", b"5", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_named_by_its_number(raw: bytes) -> None:
    assert list(jsonl.lines(b"{}\n\n" + raw + b'\n{"a": 1}')) == [(1, {}), (3, None), (4, {"a": 1})]
