"""Schedules and prompts: seeded, of the rate asked for, distinct."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from b200kit.node.client import prompts
from b200kit.node.client.arrivals import Arrival, closed_loop, constant, open_loop, poisson
from b200kit.node.client.prompts import (
    WORDS,
    PromptSource,
    Scale,
    SiteFile,
    Texts,
    WordList,
    prompt,
    table,
)
from tests.messages import assert_message
from tests.subtests import in_subtests


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    assert poisson(4.0, 40, 7) == poisson(4.0, 40, 7)
    assert poisson(4.0, 40, 7) != poisson(4.0, 40, 8)


def test_the_mean_rate_is_the_one_asked_for() -> None:
    offsets = poisson(4.0, 40, 3)
    assert offsets[-1] == pytest.approx(10.0)
    assert offsets == sorted(offsets)
    assert len(offsets) == 40
    assert poisson(4.0, 0, 3) == []


def test_gaps_are_exponential_not_constant() -> None:
    gaps = [b - a for a, b in itertools.pairwise(poisson(10.0, 4000, 1))]
    average = sum(gaps) / len(gaps)
    spread = (sum((gap - average) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / average == pytest.approx(1.0, abs=0.1)


def test_a_rate_of_nought_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        poisson(0, 3, 1)
    with pytest.raises(ValueError, match="above 0"):
        constant(0, 3)
    with pytest.raises(ValueError, match="above 0"):
        asyncio.run(Arrival(None).run(1, 0, nobody))


async def nobody(number: int, due: float) -> int:
    """Send nothing."""
    return number


def test_constant_arrivals_have_equal_gaps_and_end_as_poissons_do() -> None:
    assert constant(4.0, 3) == [0.25, 0.5, 0.75]
    assert constant(4.0, 40)[-1] == pytest.approx(poisson(4.0, 40, 1)[-1])


@pytest.mark.parametrize(
    "arrival", [Arrival(4.0), Arrival(0.5, even=True), Arrival(4.0, concurrency=2)]
)
def test_an_arrival_says_what_it_is_and_sends_everything(arrival: Arrival) -> None:
    assert_message(str(arrival))
    quick = Arrival(10_000.0, arrival.even, arrival.concurrency)
    assert asyncio.run(quick.run(5, 1, nobody)) == [0, 1, 2, 3, 4]


def test_nothing_caps_an_open_loop() -> None:
    """2000 requests of which none is answered before all are sent."""

    async def scenario() -> int:
        everyone, under_way = asyncio.Event(), 0

        async def send(number: int, due: float) -> int:
            nonlocal under_way
            under_way += 1
            if under_way == 2000:
                everyone.set()
            await everyone.wait()
            return number

        return len(await Arrival(100_000.0).run(2000, 1, send))

    assert asyncio.run(scenario()) == 2000


def test_the_open_loop_does_not_wait_for_answers() -> None:
    async def scenario() -> list[int]:
        everyone = asyncio.Event()
        under_way = 0

        async def send(number: int, due: float) -> int:
            nonlocal under_way
            under_way += 1
            if under_way == 5:
                everyone.set()
            await everyone.wait()
            return number

        return await open_loop([0.0] * 5, send)

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]


def test_the_closed_loop_keeps_its_concurrency() -> None:
    async def scenario() -> tuple[list[int], int]:
        now = most = 0

        async def send(number: int, due: float) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return number

        return await closed_loop(3, 10, send), most

    assert asyncio.run(scenario()) == (list(range(10)), 3)


def test_one_failure_leaves_no_request_running() -> None:
    async def scenario() -> int:
        async def send(number: int, due: float) -> int:
            if number == 0:
                raise RuntimeError("broken")
            await asyncio.sleep(3600)
            return number

        with pytest.raises(RuntimeError, match="broken"):
            await open_loop([0.0, 0.0, 0.0], send)
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


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
def test_nothing_is_shared(source: PromptSource) -> None:
    made = [source.text(60, "s", number) for number in range(40)]
    assert max(common(a, b) for a in made for b in made if a != b) <= 2
    assert len(set(made)) == 40


def test_sources_are_known_by_name_and_files_by_path() -> None:
    assert isinstance(prompts.source("words"), WordList)
    assert isinstance(prompts.source("texts"), Texts)
    with pytest.raises(FileNotFoundError):
        prompts.source("./texts")


def test_prompts_are_repeatable_and_differ_from_the_first_word_on() -> None:
    made = [prompt(20, 1, number) for number in range(50)]
    assert made[3] == prompt(20, 1, 3)
    assert len({" ".join(text.split()[:3]) for text in made}) == 50
    assert all(len(text.split()) == 20 for text in made)
    assert prompt(20, 2, 3) != made[3]


def test_the_word_list_is_plain_distinct_words() -> None:
    assert len(set(WORDS)) == len(WORDS) >= 150
    assert all(word.isalpha() and word.islower() for word in WORDS)


def test_the_scale_goes_through_two_measured_points() -> None:
    scale = Scale.through((10, 33), (110, 233))
    assert (scale.per_word, scale.overhead) == (2.0, 13.0)
    assert scale.words(213) == 100
    assert scale.words(1) == 4


@pytest.mark.parametrize("long", [(10, 40), (20, 33), (5, 60)])
def test_odd_counts_fall_back_to_the_default_scale(long: tuple[int, int]) -> None:
    assert Scale.through((10, 33), long) == Scale()


PLACEHOLDERS = {"person", "place", "month", "day", "few", "many"}


def sentences(text: str) -> list[str]:
    """Those of a prompt, without the headings of topics."""
    return [each.strip() for each in re.split(r"(?<=[.:?]) ", text) if not each.startswith("About")]


@in_subtests("words", [1, 4, 16, 40, 99, 6000])
def test_text_has_the_words_that_were_asked_for(words: int) -> None:
    assert len(Texts().text(words, "s", 3).split()) == words


def test_texts_are_repeatable_and_differ_from_the_second_word_on() -> None:
    made = [Texts().text(60, "1", number) for number in range(500)]
    assert made[3] == Texts().text(60, "1", 3)
    assert len({" ".join(text.split()[:2]) for text in made}) == 500
    assert Texts().text(60, "2", 3) != made[3]


def test_sentence_comes_again_only_after_all_the_others() -> None:
    said = sentences(Texts().text(20_000, "s", 1))
    assert Counter(said[:150]).most_common(1)[0][1] == 1
    last: dict[str, int] = {}
    apart = [at - last[text] for at, text in enumerate(said) if last.setdefault(text, at) != at]
    assert len(said) > 900
    assert min(apart) >= 150


def test_frame_of_a_sentence_comes_again_only_when_all_have_been_used() -> None:
    frames = [frame for topic in table()["topics"].values() for frame in topic]
    words = sum(len(frame.split()) for frame in frames)
    text = Texts().text(words, "s", 1)
    openings = [re.escape(frame.split("{")[0].strip()) for frame in frames]
    apart = [opening for opening in openings if len(opening) > 12]
    assert len(apart) > 80
    assert all(len(re.findall(opening, text)) <= 1 for opening in apart)


def test_prompts_begin_with_different_topics_and_end_in_different_tasks() -> None:
    made = [Texts().text(120, "s", number) for number in range(200)]
    topics = {re.search(r"About ([^:]+):", text)[1] for text in made}  # type: ignore[index]
    assert len(topics) == len(table()["topics"]) >= 20
    assert {text.split("\n\n")[1] for text in made} == set(table()["tasks"])


def test_every_blank_of_a_sentence_can_be_filled() -> None:
    frames = [frame for topic in table()["topics"].values() for frame in topic]
    assert {name for frame in frames for name in re.findall(r"{(\w*)}", frame)} == PLACEHOLDERS
    assert len(set(frames)) == len(frames) >= 150
    assert all(len(set(names)) == len(names) >= 7 for names in table()["names"].values())


LINES = tuple(f"question {number} of the users" for number in range(20))


def written(folder: Path, text: str | bytes, name: str = "asked.txt") -> str:
    """The path of a file with this content."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_each_line_of_text_is_a_prompt(tmp_path: Path) -> None:
    path = written(tmp_path, '"Why?" she asked.\n\n  Translate: {x}\u2028y  \n')
    assert prompts.read(path).lines == ('"Why?" she asked.', "Translate: {x}\u2028y")


def test_each_line_of_json_is_a_string_or_has_one(tmp_path: Path) -> None:
    path = written(tmp_path, '"one\\ntwo"\n{"prompt": "three", "id": 7}\n', "asked.jsonl")
    assert prompts.read(path).lines == ("one\ntwo", "three")


def test_what_a_node_gets_is_the_same_prompts_by_the_same_name(tmp_path: Path) -> None:
    found = prompts.read(written(tmp_path, "one\ntwo \u00e9\n"))
    again = prompts.read(written(tmp_path, found.data(), "prompts.jsonl"))
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
        prompts.read(path)
    assert_message(str(refused.value).replace(str(tmp_path), "DIR"))


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"prompt": "a", "prompt": "b"}'], ids=range(2))
def test_line_that_is_no_json_to_the_strict_reader_is_named(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(ValueError, match=r"asked\.jsonl, line 1: "):
        prompts.read(written(tmp_path, line, "asked.jsonl"))


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
    assert len(long.text(1000, "s", 0).split()) == 102
