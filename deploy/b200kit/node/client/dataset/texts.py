"""Running text of any length from the kit's own sentences; names and numbers are drawn each time.

Topics follow each other in an order of their own for each prompt, and a sentence comes again only
when all have been used, after some 3000 words.
"""

from __future__ import annotations

import hashlib
import pkgutil
import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from b200kit.node.lib import yaml_subset

_FILE = "texts.yaml"
_FEW, _MANY = (2, 60), (110, 9800)
_BESIDE_TASK = 12
"""Words of text, at least, that a task needs before it."""


class Texts:
    """The kit's own sentences as a source of prompts."""

    @property
    def name(self) -> str:
        """Its name with the digest of the sentences."""
        return f"own texts {_digest()[:8]}"

    def text(self, words: int, seed: str, number: int, *, opens: bool = True) -> str:
        """`words` words that end in a task, where they are enough to have one.

        opens: of a conversation, and unlike any other from the second word on.
        """
        chooser = _chooser(f"{seed}/{number}")
        task = chooser.choice(_table()["tasks" if opens else "further"]).split()
        room = words - len(task)
        if room < _BESIDE_TASK:
            return " ".join(islice(_words(chooser), words))
        return f"{' '.join(islice(_words(chooser), room))}\n\n{' '.join(task)}"

    def background(self, words: int, seed: str, number: int) -> str:
        """`words` words without a task, for others to follow."""
        return " ".join(islice(_words(_chooser(f"{seed}/{number}")), words))


def _chooser(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 (variety, not secrecy)


def _words(chooser: random.Random) -> Iterator[str]:
    """A heading with a number of its own, then sentences without end."""
    yield from f"Note {chooser.randrange(10**8, 10**9)}.".split()
    table = _table()
    topics = sorted(table["topics"])
    for topic in cycle(chooser.sample(topics, len(topics))):
        yield from f"About {topic}:".split()
        cast = _cast(chooser, table["names"])
        for sentence in table["topics"][topic]:
            yield from _filled(sentence, cast, chooser).split()


def _cast(chooser: random.Random, names: dict[str, list[str]]) -> dict[str, list[str]]:
    """Two of each kind of name: those who are in one topic."""
    return {kind: chooser.sample(known, 2) for kind, known in sorted(names.items())}


def _filled(sentence: str, cast: dict[str, list[str]], chooser: random.Random) -> str:
    drawn = {kind: chooser.choice(names) for kind, names in cast.items()}
    few, many = chooser.randint(*_FEW), chooser.randint(*_MANY)
    return sentence.format(**drawn, few=few, many=many)


def _data() -> bytes:
    return pkgutil.get_data(__package__, _FILE) or b""


@lru_cache(maxsize=1)
def _digest() -> str:
    return hashlib.sha256(_data()).hexdigest()


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    """texts.yaml."""
    table: dict[str, Any] = yaml_subset.load(_data().decode())
    return table
