"""What the prompts of a run share, and the turns of a conversation."""

from __future__ import annotations

import re

import pytest

from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.dataset import Dataset
from b200kit.node.client.dataset.site_file import SiteFile
from b200kit.node.client.dataset.source import Source, WordList
from b200kit.node.client.dataset.texts import Texts
from b200kit.node.client.dataset.words import prompt
from tests.messages import assert_message

SOURCES = [
    WordList(),
    Texts(),
    SiteFile(("a question " * 400, "an order " * 400, "a thought " * 400)),
]


def common(one: str, other: str) -> int:
    """Words that both begin with."""
    pairs = list(zip(one.split(), other.split(), strict=False))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_so_many_in_a_row_share_so_many_words_and_no_more(source: Source) -> None:
    shaped = Dataset(source, shared=0.6, group=4)
    made = [shaped.message(200, "s", number) for number in range(12)]
    assert all(len(text.split()) == 200 for text in made)
    for number, text in enumerate(made[1:], 1):
        found = common(made[number - 1], text)
        # The first own word is alike in all texts: they open with "Note".
        assert found in ((0, 1) if number % 4 == 0 else (120, 121)), number
    assert len(set(made)) == 12


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_nothing_is_shared_unasked(source: Source) -> None:
    made = [Dataset(source).message(60, "s", number) for number in range(40)]
    assert max(common(a, b) for a in made for b in made if a != b) <= 2
    assert len(set(made)) == 40


def test_random_words_are_those_that_have_always_been_sent() -> None:
    assert Dataset().message(30, "5/gateway", 7) == prompt(30, "5/gateway", 7)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_each_turn_says_something_else(source: Source) -> None:
    shaped = Dataset(source, shared=0.5, turns=3)
    said = [shaped.message(40, "s", 1, turn) for turn in range(3)]
    assert len(set(said)) == 3
    assert said != [shaped.message(40, "s", 2, turn) for turn in range(3)]


def test_only_the_first_turn_opens_a_conversation() -> None:
    asked = Dataset(SiteFile(("why?", "how?", "when?")), turns=3)
    said = [asked.message(40, "s", 1, turn) for turn in range(3)]
    assert [text.startswith("Note ") for text in said] == [True, False, False]
    assert {text.split("\n")[-1] for text in said} == {"why?", "how?", "when?"}


@pytest.mark.parametrize(
    ("requests", "turns", "split"),
    [(7, 1, [1] * 7), (7, 3, [3, 3, 1]), (6, 3, [3, 3]), (2, 3, [2]), (0, 3, [])],
)
def test_conversations_have_as_many_requests_as_were_asked_for(
    requests: int, turns: int, split: list[int]
) -> None:
    assert Dataset(turns=turns).split(requests) == split


@pytest.mark.parametrize(
    "shaped",
    [
        Dataset(),
        Dataset(Texts()),
        Dataset(Texts(), turns=3),
        Dataset(SiteFile(("a", "b")), shared=0.5, group=4),
        Dataset(shared=0.25, turns=2),
    ],
    ids=["words", "texts", "conversations", "site", "words-in-conversations"],
)
def test_dataset_says_what_it_is(shaped: Dataset) -> None:
    assert_message(str(shaped), DIGEST=re.compile(r"(?<=texts |.site )[0-9a-f]{8}"))
    shares = shaped.shared > 0 or shaped.turns > 1
    assert str(shaped).endswith("no prefix shared") is not shares


@pytest.mark.parametrize("wrong", [{"shared": -0.1}, {"shared": 0.96}, {"group": 1}, {"turns": 0}])
def test_what_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|is shared") as refused:
        Dataset(**wrong)  # type: ignore[arg-type]
    assert_message(str(refused.value))


def test_sources_are_known_by_name_and_files_by_path() -> None:
    assert isinstance(dataset.source("words"), WordList)
    assert isinstance(dataset.source("texts"), Texts)
    with pytest.raises(FileNotFoundError):
        dataset.source("./texts")
