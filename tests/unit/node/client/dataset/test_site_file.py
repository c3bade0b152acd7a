"""A site's own prompts: what a file may be, and the order in which they are sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from b200kit.node.client.dataset import site_file
from b200kit.node.client.dataset.site_file import SiteFile
from tests.messages import assert_message

LINES = tuple(f"question {number} of the users" for number in range(20))


def written(folder: Path, text: str | bytes, name: str = "asked.txt") -> str:
    """The path of a file with this content."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_each_line_of_text_is_a_prompt(tmp_path: Path) -> None:
    path = written(tmp_path, '"Why?" she asked.\n\n  Translate: {x}\u2028y  \n')
    assert site_file.read(path).lines == ('"Why?" she asked.', "Translate: {x}\u2028y")


def test_each_line_of_json_is_a_string_or_has_one(tmp_path: Path) -> None:
    path = written(tmp_path, '"one\\ntwo"\n{"prompt": "three", "id": 7}\n', "asked.jsonl")
    assert site_file.read(path).lines == ("one\ntwo", "three")


def test_what_a_node_gets_is_the_same_prompts_by_the_same_name(tmp_path: Path) -> None:
    found = site_file.read(written(tmp_path, "one\ntwo \u00e9\n"))
    again = site_file.read(written(tmp_path, found.data(), "prompts.jsonl"))
    assert again == found
    assert again.name == found.name
    assert found.name.startswith("2 prompts of the site ")
    assert SiteFile(("one", "two")).name != found.name
    assert "one" not in repr(found)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "empty.txt"),
        (b" \n\n", "blank.txt"),
        (b"\xff\xfe", "bytes.txt"),
        (b'"good"\nbare\n', "bare.jsonl"),
        (b'{"text": "x"}\n', "other.jsonl"),
        (b'""\n', "nothing.jsonl"),
        (b"7\n", "number.jsonl"),
        (b"x" * ((16 << 20) + 1), "large.txt"),
    ],
)
def test_file_that_cannot_be_used_is_one_line(tmp_path: Path, content: bytes, name: str) -> None:
    path = written(tmp_path, content, name)
    with pytest.raises(ValueError, match=name) as refused:
        site_file.read(path)
    assert_message(str(refused.value).replace(str(tmp_path), "DIR"))


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"prompt": "a", "prompt": "b"}'], ids=range(2))
def test_line_that_is_no_json_to_the_strict_reader_is_named(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match=r"asked\.jsonl, line 1: "):
        site_file.read(written(tmp_path, line, "asked.jsonl"))


def test_all_prompts_are_sent_before_one_comes_again_and_none_begins_alike() -> None:
    source = SiteFile(LINES)
    made = [source.text(30, "s", number) for number in range(45)]
    asked = [text.split("\n")[1] for text in made]
    assert set(asked[:20]) == set(asked[20:40]) == set(LINES)
    assert asked[:20] != list(LINES)
    assert asked[20:40] != asked[:20]
    assert len({" ".join(text.split()[:2]) for text in made}) == 45
    assert made == [source.text(30, "s", number) for number in range(45)]
    assert asked != [source.text(30, "t", number).split("\n")[1] for number in range(45)]


def test_prompt_is_cut_to_the_words_that_were_asked_for_and_no_shorter() -> None:
    long = SiteFile((" ".join(json.dumps(list(range(100))).split()),))
    assert len(long.text(30, "s", 0).split()) == 30
    assert len(long.text(30, "s", 0, opens=False).split()) == 30
    assert len(long.text(1000, "s", 0).split()) == 102
