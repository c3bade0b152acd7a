"""The prompts of a run: their source, what they have in common, and turns of a conversation.

Random words share nothing and mean nothing: speculation and prefix caches do with them what they do
with no user's prompt. How much is shared is therefore requested and reported, never an accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from b200kit.node.client.dataset import site_file
from b200kit.node.client.dataset.source import Source, WordList
from b200kit.node.client.dataset.texts import Texts

MOST_SHARED = 0.95
MOST_TURNS = 50
_BUILT_IN: Mapping[str, type[WordList] | type[Texts]] = {"words": WordList, "texts": Texts}


@dataclass(frozen=True)
class Dataset:
    """shared: the share of a first prompt's words that `group` conversations in a row begin with.

    turns: requests of a conversation; each one after the first has what was said so far.
    """

    source: Source = field(default_factory=WordList)
    shared: float = 0.0
    group: int = 8
    turns: int = 1

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be."""
        if not 0 <= self.shared <= MOST_SHARED:
            raise ValueError(f"prefix share must be from 0 to {MOST_SHARED}, not {self.shared:g}")
        if self.group < 2:
            raise ValueError(f"a prefix is shared by 2 requests or more, not {self.group}")
        if not 1 <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns must be from 1 to {MOST_TURNS}, not {self.turns}")

    def __str__(self) -> str:
        """In words, for whoever reads the numbers."""
        found = [f"{self.source.name}, distinct by seed"]
        if self.shared:
            found += [f"{self.shared:.0%} of each shared by {self.group}"]
        if self.turns > 1:
            found += [f"conversations of {self.turns} turns"]
        return "; ".join(found if len(found) > 1 else [*found, "no prefix shared"])

    def message(self, words: int, seed: str, conversation: int, turn: int = 0) -> str:
        """What the user says in a turn, counted from 0; about *words* words."""
        common = 0 if turn else round(words * self.shared)
        number = conversation * self.turns + turn
        own = self.source.text(words - common, seed, number, opens=not turn)
        if not common:
            return own
        group = conversation // self.group
        return f"{self.source.background(common, f'{seed}/shared', group)}\n\n{own}"

    def split(self, requests: int) -> list[int]:
        """Turns of each conversation: as many requests in all."""
        whole, rest = divmod(requests, self.turns)
        return [self.turns] * whole + [rest] * bool(rest)


def source(name: str) -> Source:
    """By "words", "texts" or the path of a file. Raises ValueError, OSError."""
    return _BUILT_IN[name]() if name in _BUILT_IN else site_file.read(name)
