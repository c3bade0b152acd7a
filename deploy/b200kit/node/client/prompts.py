"""Prompts of a measurement: random words, running text, or a site's own; each is sent once.

All differ by seed and number from the first words on, so that none is in a prefix cache. A length
in tokens is approximated (`Scale` is calibrated against the server's own counts); what counts
afterwards is `usage.prompt_tokens`.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Protocol

from b200kit.node.lib import documents, tables

MOST_BYTES = 16 << 20
"""Of a site's file: it is copied to every node."""
_FEW, _MANY = (2, 60), (110, 9800)
_BESIDE_TASK = 12
"""Words of text, at least, that a task needs before it."""


class PromptSource(Protocol):
    """A kind of prompts; lengths are in words, which are what blanks separate."""

    @property
    def name(self) -> str:
        """What it is, for whoever compares two runs."""

    def text(self, words: int, seed: str, number: int) -> str:
        """One prompt, unlike any other."""


_TEXT = """
    amber anchor apple april arrow autumn bamboo barley basin beacon birch bottle branch bridge
    bright butter cabin canal candle canyon carbon carpet castle cedar chalk cherry circle cliff
    clock cloud clover coast cobalt copper coral cotton cradle crane crystal daisy dancer desert
    distant dolphin early eastern echo ember engine evening falcon feather fennel field finger
    flint forest fountain garden gentle ginger glacier golden granite gravel hammer harbor harvest
    hazel heron hidden hollow honey horizon indigo island ivory jasmine jungle kettle kitchen
    ladder lantern laurel lemon linen little lizard maple marble meadow melon mirror morning
    mountain narrow needle northern nutmeg oak ocean olive orange orchard otter oyster paper
    parcel pebble pepper pilot planet pocket polar poplar prairie purple quarry quiet rabbit
    raven ribbon river rocket saddle saffron salmon sandal school scarlet seven shadow shelter
    silent silver simple sister slender southern sparrow spider spring square station stone
    storm summer sunset table temple thistle thunder timber tower travel tulip tunnel turtle
    valley velvet village violet walnut water western whisper willow window winter wonder
    yellow yonder zephyr
"""
WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class Scale:
    """tokens = overhead + per_word * words, for one model and chat template."""

    per_word: float = 1.3
    overhead: float = 12.0

    def words(self, tokens: int) -> int:
        """How many words make about `tokens` prompt tokens; at least 4, to stay distinct."""
        return max(4, round((tokens - self.overhead) / self.per_word))

    @classmethod
    def through(cls, short: tuple[float, float], long: tuple[float, float]) -> Scale:
        """The line through two measured (words, prompt_tokens); the default if they are odd."""
        (words, tokens), (more_words, more_tokens) = short, long
        if more_words <= words or more_tokens <= tokens:
            return cls()
        slope = (more_tokens - tokens) / (more_words - words)
        return cls(per_word=slope, overhead=tokens - slope * words)


def prompt(words: int, seed: int | str, number: int) -> str:
    """`words` words that differ from the first one on for each (seed, number).

    The start differs, not only the end, so that no prefix of another prompt is in a cache.
    """
    return " ".join(_chooser(f"{seed}/{number}").choices(WORDS, k=words))


@dataclass(frozen=True)
class WordList:
    """Random words, which mean nothing: speculation does with them what it does with no text."""

    name: str = "own word list"

    def text(self, words: int, seed: str, number: int) -> str:
        """Random words."""
        return prompt(words, seed, number)


class Texts:
    """Running text of the kit's own sentences; names and numbers are drawn each time.

    Topics follow each other in an order of their own for each prompt, and a sentence comes again
    only when all have been used, after some 3000 words.
    """

    @property
    def name(self) -> str:
        """Its name with the digest of the sentences."""
        return f"own texts {hashlib.sha256(json.dumps(table()).encode()).hexdigest()[:8]}"

    def text(self, words: int, seed: str, number: int) -> str:
        """`words` words that end in a task, where they are enough to have one."""
        chooser = _chooser(f"{seed}/{number}")
        task = chooser.choice(table()["tasks"]).split()
        room = words - len(task)
        if room < _BESIDE_TASK:
            return " ".join(islice(_words(chooser), words))
        return f"{' '.join(islice(_words(chooser), room))}\n\n{' '.join(task)}"


def _chooser(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 (variety, not secrecy)


def _words(chooser: random.Random) -> Iterator[str]:
    """A heading with a number of its own, then sentences without end."""
    yield from f"Note {chooser.randrange(10**8, 10**9)}.".split()
    topics = sorted(table()["topics"])
    for topic in cycle(chooser.sample(topics, len(topics))):
        yield from f"About {topic}:".split()
        # Two of each kind of name are in one topic.
        cast = {kind: chooser.sample(known, 2) for kind, known in sorted(table()["names"].items())}
        for sentence in table()["topics"][topic]:
            drawn = {kind: chooser.choice(names) for kind, names in cast.items()}
            few, many = chooser.randint(*_FEW), chooser.randint(*_MANY)
            yield from sentence.format(**drawn, few=few, many=many).split()


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """texts.yaml."""
    found: dict[str, Any] = tables.load(__package__, "texts")
    return found


@dataclass(frozen=True)
class SiteFile:
    """The prompts of a file. Each opens with a number of its own: one that is sent again is in no
    prefix cache.
    """

    lines: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """How many there are, and their digest."""
        digest = hashlib.sha256(self.data()).hexdigest()[:8]
        return f"{len(self.lines)} prompts of the site {digest}"

    def text(self, words: int, seed: str, number: int) -> str:
        """A prompt, cut to so many words; all have been sent before one comes again."""
        turn, place = divmod(number, len(self.lines))
        line = self.lines[_order(len(self.lines), f"{seed}/{turn}")[place]]
        mark = f"Note {_chooser(f'{seed}/{number}').randrange(10**8, 10**9)}.\n"
        kept, room = line.split(), max(1, words - len(mark.split()))
        return mark + (line if len(kept) <= room else " ".join(kept[:room]))

    def data(self) -> bytes:
        """The prompts as a node gets them: JSON, one a line."""
        return "".join(f"{json.dumps(line)}\n" for line in self.lines).encode()


@lru_cache(maxsize=64)
def _order(count: int, seed: str) -> tuple[int, ...]:
    order = list(range(count))
    _chooser(seed).shuffle(order)
    return tuple(order)


def source(name: str) -> PromptSource:
    """By "words", "texts" or the path of a file. Raises ValueError, OSError."""
    if name == "words":
        return WordList()
    return Texts() if name == "texts" else read(name)


def read(path: str) -> SiteFile:
    """The prompts of a file: one a line, as text, or as JSON where its name ends in .jsonl.

    A line of JSON is a string, or an object whose member `prompt` is one. Raises ValueError, or
    OSError where it cannot be read.
    """
    data = Path(path).read_bytes()
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text") from None
    found = tuple(_prompts(text, path, path.endswith(".jsonl")))
    if not found:
        raise ValueError(f"{path} has no prompt")
    return SiteFile(found)


def _prompts(text: str, path: str, is_json: bool) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        found = _of_json(line) if is_json else line.strip()
        if not found:
            raise ValueError(f'{path}, line {number}: no string and no object with "prompt"')
        yield found


def _of_json(line: str) -> str | None:
    try:
        found = documents.parse(line, MOST_BYTES)
    except ValueError:
        return None
    found = found.get("prompt") if isinstance(found, dict) else found
    return found.strip() if isinstance(found, str) else None
