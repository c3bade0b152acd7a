"""Running text as prompts: lengths, distinctness, and how soon a sentence comes again."""

from __future__ import annotations

import re
from collections import Counter

from b200kit.node.client.dataset.texts import Texts, _table
from tests.subtests import in_subtests

PLACEHOLDERS = {"person", "place", "month", "day", "few", "many"}


def sentences(text: str) -> list[str]:
    """Those of a prompt, without the headings of topics."""
    return [each.strip() for each in re.split(r"(?<=[.:?]) ", text) if not each.startswith("About")]


@in_subtests("words", [1, 4, 16, 40, 99, 6000])
def test_text_has_the_words_that_were_asked_for(words: int) -> None:
    for opens in (True, False):
        assert len(Texts().text(words, "s", 3, opens=opens).split()) == words
    assert len(Texts().background(words, "s", 3).split()) == words


def test_texts_are_repeatable_and_differ_from_the_second_word_on() -> None:
    made = [Texts().text(60, "1", number) for number in range(500)]
    assert made[3] == Texts().text(60, "1", 3)
    assert len({" ".join(text.split()[:2]) for text in made}) == 500
    assert Texts().text(60, "2", 3) != made[3]


def test_sentence_comes_again_only_after_all_the_others() -> None:
    said = sentences(Texts().background(20_000, "s", 1))
    assert Counter(said[:150]).most_common(1)[0][1] == 1
    last: dict[str, int] = {}
    apart = [at - last[text] for at, text in enumerate(said) if last.setdefault(text, at) != at]
    assert len(said) > 900
    assert min(apart) >= 150


def test_frame_of_a_sentence_comes_again_only_when_all_have_been_used() -> None:
    frames = [frame for topic in _table()["topics"].values() for frame in topic]
    words = sum(len(frame.split()) for frame in frames)
    text = Texts().background(words, "s", 1)
    openings = [re.escape(frame.split("{")[0].strip()) for frame in frames]
    apart = [opening for opening in openings if len(opening) > 12]
    assert len(apart) > 80
    assert all(len(re.findall(opening, text)) <= 1 for opening in apart)


def test_prompts_begin_with_different_topics_and_end_in_different_tasks() -> None:
    made = [Texts().text(120, "s", number) for number in range(200)]
    topics = {re.search(r"About ([^:]+):", text)[1] for text in made}  # type: ignore[index]
    assert len(topics) == len(_table()["topics"]) >= 20
    assert {text.split("\n\n")[1] for text in made} == set(_table()["tasks"])


def test_later_turn_asks_something_further() -> None:
    assert Texts().text(80, "s", 1, opens=False).split("\n\n")[1] in _table()["further"]


def test_every_blank_of_a_sentence_can_be_filled() -> None:
    table = _table()
    frames = [frame for topic in table["topics"].values() for frame in topic]
    assert {name for frame in frames for name in re.findall(r"{(\w*)}", frame)} == PLACEHOLDERS
    assert len(set(frames)) == len(frames) >= 150
    assert all(len(set(names)) == len(names) >= 7 for names in table["names"].values())
