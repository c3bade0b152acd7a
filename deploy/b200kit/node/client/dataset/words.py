"""Random prompts for warm-up and measurement: plain English words, distinct by seed and number.

A length asked in tokens is only approximated (`Scale` turns tokens into words and is calibrated
against the server's own usage counts); what counts afterwards is `usage.prompt_tokens`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

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
    chooser = random.Random(f"{seed}/{number}")  # noqa: S311 (variety, not secrecy)
    return " ".join(chooser.choices(WORDS, k=words))
