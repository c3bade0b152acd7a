"""Documents as classes: what is read back, and what is refused with its place, on one line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Malformed, Pattern, Range
from tests.subtests import in_subtests


class Colour(Enum):
    """Two words."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    """A part of a document."""

    count: Annotated[int, Range(1, 9)]
    share: Annotated[float, Range(0, above=True)] = 0.5


@dataclass(frozen=True)
class Outer:
    """A document with each kind of value."""

    schema: ClassVar[str] = "b200kit/outer/1"

    name: Annotated[str, Pattern(r"[a-z]\d*")]
    inner: Inner
    colour: Colour = Colour.RED
    way: Literal["in", "out"] = "in"
    parts: tuple[Inner, ...] = ()
    table: dict[str, float] = field(default_factory=dict)
    modes: tuple[tuple[int, float], ...] = ()
    maybe: str | None = None
    either: str | int = 0
    own: str = field(default="mine", metadata={"document": False})


WHOLE: dict[str, Any] = {
    "schema": "b200kit/outer/1",
    "name": "n1",
    "inner": {"count": 3, "share": 1},
    "colour": "blue",
    "way": "out",
    "parts": [{"count": 1}],
    "table": {"a": 1.5},
    "modes": [[8, 43.9]],
    "maybe": "text",
    "either": "word",
}


def refusal(document: object) -> str:
    """Why a document is refused."""
    with pytest.raises(Malformed) as caught:
        documents.structure(Outer, document)
    return str(caught.value)


def test_what_is_written_is_read_back() -> None:
    found = documents.structure(Outer, WHOLE)
    assert found.inner == Inner(3, 1.0)
    assert (found.colour, found.parts, found.own) == (Colour.BLUE, (Inner(1),), "mine")
    again = json.loads(documents.to_bytes(found))
    assert documents.structure(Outer, again) == found
    assert "own" not in again


@in_subtests("raw", ["1e999", "[-1e999]", '{"a": 1%s}' % ("0" * 400), "[NaN]"])
def test_number_that_no_double_holds_is_none(raw: str) -> None:
    with pytest.raises(Malformed):
        documents.parse(raw)


@in_subtests(("raw", "source"), [("[]", "curl"), ('{"a": 1, "a": 2}', Path("/x")), ("{", "nft")])
def test_source_of_a_document_is_named(raw: str, source: object) -> None:
    with pytest.raises(Malformed, match=f"^{source}: "):
        documents.decode(documents.Object, raw, source=source)


@in_subtests(
    ("raw", "like"),
    [
        (b"<!DOCTYPE html>", "it begins with '<'"),
        ("\ufeff{}", r"it begins with '\\ufeff'"),
        (b"\xff\xfe{", "it begins with '\xff'"),
        (b" \n", "it is empty"),
        ('{"key": word}', r"char 8\)"),
    ],
)
def test_what_is_no_json_says_how_it_begins_and_no_more(raw: bytes | str, like: str) -> None:
    with pytest.raises(Malformed, match=f"{like}$"):
        documents.parse(raw)


@in_subtests(("depth", "refused"), [(64, False), (65, True), (500, True)])
def test_depth_has_the_same_limit_whoever_calls(depth: int, refused: bool) -> None:
    text = "[" * depth + "]" * depth
    if refused:
        with pytest.raises(Malformed, match="nested too deeply"):
            documents.parse(text)
    else:
        assert documents.parse(text) is not None


def test_only_what_has_no_default_must_be_there() -> None:
    least = {"schema": Outer.schema, "name": "n1", "inner": {"count": 1}}
    assert documents.structure(Outer, least) == Outer("n1", Inner(1))


@in_subtests(
    ("change", "place"),
    [
        ({"schema": "b200kit/outer/2"}, "b200kit/outer/2"),
        ({"schema": None}, "schema"),
        ({"name": 7}, "name"),
        ({"name": "N1"}, "name"),
        ({"name": "n\uff11"}, "name"),
        ({"inner": []}, "inner"),
        ({"inner": {"count": 0}}, "inner.count"),
        ({"inner": {"count": 10}}, "inner.count"),
        ({"inner": {"count": True}}, "inner.count"),
        ({"inner": {"count": 1.0}}, "inner.count"),
        ({"inner": {"count": 1, "share": 0}}, "inner.share"),
        ({"inner": {"count": 1, "share": 1e999}}, "inner.share"),
        ({"inner": {"count": 1, "shares": 0}}, "inner.shares"),
        ({"inner": {}}, "inner.count"),
        ({"colour": "green"}, "colour"),
        ({"way": "up"}, "way"),
        ({"parts": {}}, "parts"),
        ({"parts": [{"count": 1}, {"count": "1"}]}, "parts[1].count"),
        ({"table": {"a": "1"}}, "table.a"),
        ({"modes": [[8]]}, "modes[0]"),
        ({"modes": [[8, 43.9, 1]]}, "modes[0]"),
        ({"modes": [[8.5, 43.9]]}, "modes[0][0]"),
        ({"maybe": 1}, "maybe"),
        ({"either": None}, "either"),
        ({"own": "yours"}, "own"),
    ],
)
def test_another_value_is_refused_with_its_place(change: dict[str, Any], place: str) -> None:
    why = refusal(WHOLE | change)
    assert place in why
    assert "\n" not in why


@in_subtests("document", [None, [], "text", 7, True])
def test_no_object_is_no_document(document: object) -> None:
    assert "object" in refusal(document)


HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "a page": b"<html></html>",
    "another encoding": json.dumps(WHOLE).encode("utf-16"),
    "a key twice": b'{"schema": "b200kit/outer/1", "name": "n1", "name": "n2"}',
    "a key twice below": b'{"inner": {"count": 1, "count": 2}}',
    "not a number": b'{"inner": {"count": 1, "share": NaN}}',
    "endless": b'{"inner": {"count": 1, "share": Infinity}}',
    "deep": b"[" * 60_000,
    "deep and whole": b"[" * 80 + b"]" * 80,
    "large": b'"' + b"x" * documents.MOST_BYTES + b'"',
    "a number of a million digits": b"1" * 60_000,
}


@in_subtests("raw", HOSTILE.values())
def test_hostile_file_is_refused_in_one_line_that_names_it(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(raw)
    with pytest.raises(Malformed) as caught:
        documents.load(Outer, path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(json.dumps(WHOLE))
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    for path in (tmp_path / "link.json", tmp_path):
        with pytest.raises(Malformed):
            documents.load(Outer, path)
    with pytest.raises(FileNotFoundError):
        documents.load(Outer, tmp_path / "absent.json")
