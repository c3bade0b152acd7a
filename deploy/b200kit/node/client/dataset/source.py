"""Where prompts come from. Every source makes them distinct by seed and number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from b200kit.node.client.dataset.words import prompt


class Source(Protocol):
    """A kind of prompts; lengths are in words, which are what blanks separate."""

    @property
    def name(self) -> str:
        """What it is, for whoever compares two runs."""

    def text(self, words: int, seed: str, number: int, *, opens: bool = True) -> str:
        """One message; where it opens a conversation it begins unlike any other."""

    def background(self, words: int, seed: str, number: int) -> str:
        """What several prompts have in common: they go on after it."""


@dataclass(frozen=True)
class WordList:
    """Random words (b200kit/node/client/dataset/words.py)."""

    name: str = "own word list"

    def text(self, words: int, seed: str, number: int, *, opens: bool = True) -> str:
        """Random words, whatever place they have."""
        return prompt(words, seed, number)

    def background(self, words: int, seed: str, number: int) -> str:
        """Random words."""
        return prompt(words, seed, number)
