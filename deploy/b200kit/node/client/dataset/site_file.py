"""A site's own prompts: a file with one a line, as text, or as JSON where its name ends in .jsonl.

A line of JSON is a string, or an object whose member `prompt` is one. Each opens with a number of
its own: nothing of a prompt that is sent again is in a prefix cache.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from b200kit.node.client.dataset.texts import Texts
from b200kit.node.lib import documents

MOST_BYTES = 16 << 20
"""Of a file: it is copied to every node."""


@dataclass(frozen=True)
class SiteFile:
    """The prompts of a file; what several of them share comes from the kit's own texts."""

    lines: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """How many there are, and their digest."""
        return (
            f"{len(self.lines)} prompts of the site {hashlib.sha256(self.data()).hexdigest()[:8]}"
        )

    def text(self, words: int, seed: str, number: int, *, opens: bool = True) -> str:
        """A prompt, cut to so many words; all have been sent before one comes again."""
        turn, place = divmod(number, len(self.lines))
        line = self.lines[_order(len(self.lines), f"{seed}/{turn}")[place]]
        chooser = random.Random(f"{seed}/{number}")  # noqa: S311 (variety, not secrecy)
        mark = f"Note {chooser.randrange(10**8, 10**9)}.\n" if opens else ""
        return mark + _cut(line, words - len(mark.split()))

    def background(self, words: int, seed: str, number: int) -> str:
        """The kit's own text."""
        return Texts().background(words, seed, number)

    def data(self) -> bytes:
        """The prompts as a node gets them: JSON, one a line."""
        return "".join(f"{json.dumps(line)}\n" for line in self.lines).encode()


def read(path: str) -> SiteFile:
    """The prompts of a file. Raises ValueError, or OSError where it cannot be read."""
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
        prompt = _of_json(line) if is_json else line.strip()
        if not prompt:
            raise ValueError(f'{path}, line {number}: no string and no object with "prompt"')
        yield prompt


def _of_json(line: str) -> str | None:
    try:
        found = documents.parse(line, MOST_BYTES)
    except ValueError:
        return None
    found = found.get("prompt") if isinstance(found, dict) else found
    return found.strip() if isinstance(found, str) else None


@lru_cache(maxsize=64)
def _order(count: int, seed: str) -> tuple[int, ...]:
    order = list(range(count))
    random.Random(seed).shuffle(order)  # noqa: S311 (variety, not secrecy)
    return tuple(order)


def _cut(line: str, words: int) -> str:
    """The line as it is, or its first words."""
    kept = line.split()
    return line if len(kept) <= words else " ".join(kept[: max(1, words)])
