"""A mirror's index: only one that proves every file inside the mirror, in its time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from b200kit.supply.mirror import index
from b200kit.supply.mirror.index import Bytes, Difference, Index, IndexRefused
from tests.messages import assert_message

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
FILE = Bytes(3, "a" * 64)


def made(files: dict[str, Bytes], days: int = 90) -> Index:
    """An index of these files, made now."""
    return Index(NOW, NOW + timedelta(days=days), {"systems": ["debian12"]}, files)


def document(**changes: Any) -> bytes:
    """An index's bytes with some keys changed."""
    return json.dumps(json.loads(index.written(made({"a/b": FILE}))) | changes).encode()


def test_what_is_written_is_read_again() -> None:
    original = made({"apt/x.deb": FILE, "wheels/y.whl": Bytes(0, "b" * 64)})
    assert index.parse(index.written(original)) == original
    assert index.written(original) == index.written(index.parse(index.written(original)))


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "", "a\0b"]
)
def test_path_outside_the_mirror_is_refused(path: str) -> None:
    with pytest.raises(IndexRefused):
        index.parse(document(files={path: {"size": 1, "sha256": "a" * 64}}))


def test_document_that_proves_nothing_is_refused() -> None:
    lines = []
    for raw in (
        b"\xff", b"[]", b"{}",
        document(schema="other/1"),
        document(expires="tomorrow"),
        document(files={"a": {"size": -1, "sha256": "a" * 64}}),
        document(files={"a": {"size": True, "sha256": "a" * 64}}),
        document(files={"a": {"size": 1, "sha256": "A" * 64}}),
        document(files={"index.json": {"size": 1, "sha256": "a" * 64}}),
    ):  # fmt: skip
        with pytest.raises(IndexRefused) as refused:
            index.parse(raw)
        lines.append(str(refused.value))
    assert_message("\n".join(lines))


def test_time_is_over_or_not_yet_begun() -> None:
    of = made({}, days=90)
    assert index.expired(of, NOW) == ""
    assert index.expired(of, of.expires - timedelta(seconds=1)) == ""
    assert index.expired(of, of.expires)
    assert index.expired(of, NOW - timedelta(minutes=50)) == ""
    assert index.expired(of, NOW - timedelta(hours=2))


def test_fresh_is_with_more_than_a_third_of_its_time() -> None:
    of = made({}, days=90)
    assert index.is_fresh(of, NOW + timedelta(days=59))
    assert not index.is_fresh(of, NOW + timedelta(days=60))


def test_difference_names_what_comes_goes_and_changes() -> None:
    old = made({"same": FILE, "gone": FILE, "other": FILE})
    new = made({"same": FILE, "new": FILE, "other": Bytes(3, "b" * 64)})
    assert index.difference(old, new) == Difference(("new",), ("gone",), ("other",))
    assert index.difference(new, new) == Difference((), (), ())
