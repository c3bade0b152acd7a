"""What the stand-in says: words that a prompt decides, at log-probabilities that it decides, too.

Two stand-ins give the same answer to the same prompt, as two replicas of a model do.
"""

from __future__ import annotations

import random
import zlib

TEXT = "north wind over the quiet river bends toward a lamp in some far window again"
WORDS = TEXT.split()
_GARBLED_FROM = 5
# Nats by which an engine with such a fault is less sure of its tokens.
_LESS_SURE = {"drifted": 0.9, "rounded": 0.02}


def word(prompt: str, index: int, fault: str = "") -> str:
    """The index-th word of the answer to a prompt."""
    if fault == "parrot":
        return "a "
    garbled = fault == "garbled" and index >= _GARBLED_FROM
    start = zlib.crc32(prompt.encode())
    return f"{WORDS[(start + index + 7 * garbled) % len(WORDS)]} "


def logprobs(prompt: str, words: list[str], fault: str, top: int) -> dict[str, object]:
    """`choices[0].logprobs` of such an answer, as vLLM's chat completions give it."""
    key = "" if fault == "parrot" else prompt
    return {"content": [_entry(f"{key}/{i}", word, fault, top) for i, word in enumerate(words)]}


def _entry(key: str, chosen: str, fault: str, top: int) -> dict[str, object]:
    """The chosen token is clearly the likeliest; an engine that drifted is less sure of it."""
    chance = random.Random(key)
    first = -0.2 - 0.1 * chance.random() - _LESS_SURE.get(fault, 0.0)
    known = [f"{word} " for word in WORDS if f"{word} " != chosen]
    others = chance.sample(known, min(top - 1, len(known)))
    pairs = [(chosen, first), *((text, -3.0 - n) for n, text in enumerate(others))]
    likeliest = [_pair(*pair) for pair in pairs]
    return {**likeliest[0], "top_logprobs": likeliest}


def _pair(text: str, value: float) -> dict[str, object]:
    return {"token": text, "logprob": value, "bytes": list(text.encode())}
