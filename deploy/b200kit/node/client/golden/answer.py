"""A golden answer: its tokens and their log-probabilities. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class NoLogprobs(ValueError):
    """An answer without log-probabilities; one line."""


@dataclass(frozen=True)
class Token:
    """A token: its text, its log-probability, and those of the likeliest tokens at its place."""

    text: str
    logprob: float
    top: Mapping[str, float]

    def rounded(self) -> Token:
        """As it is kept and compared: log-probabilities to 4 decimals."""
        top = {text: round(value, 4) for text, value in self.top.items()}
        return Token(self.text, round(self.logprob, 4), top)


Answer = tuple[Token, ...]


def read(content: object) -> Answer:
    """The tokens of `choices[0].logprobs.content` (OpenAI's chat completions).

    Raises NoLogprobs where there are none, ValueError for one that is not a finite number.
    """
    if not isinstance(content, list) or not content:
        raise NoLogprobs("the answers have no log-probabilities")
    return tuple(_token(entry) for entry in content)


def _token(entry: object) -> Token:
    top = entry.get("top_logprobs") if isinstance(entry, dict) else None
    if not isinstance(top, list) or not top:
        raise NoLogprobs("a token has no likeliest tokens beside it")
    pairs = [_pair(one) for one in top]
    # Parts of a character have the same text, whichever they are: such tell nothing apart.
    count = Counter(text for text, _ in pairs)
    return Token(*_pair(entry), {text: value for text, value in pairs if count[text] == 1})


def _pair(entry: object) -> tuple[str, float]:
    text, value = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (0, 0)
    if not isinstance(text, str) or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a token without text or log-probability")
    if not math.isfinite(value):
        raise ValueError(f"the log-probability of a token is {value}")
    return text, float(value)


def degenerate(answers: Sequence[Answer]) -> str:
    """Why these are no answers at all, or nothing.

    The same tokens at the same log-probabilities whatever was asked, or one token over and over in
    most of them.
    """
    if len(answers) > 1 and all(one == answers[0] for one in answers):
        return f"the same answer to {len(answers)} different prompts"
    stuck = [one for one in answers if len(one) > 3 and len({token.text for token in one}) == 1]
    if len(stuck) * 2 > len(answers):
        return f"{len(stuck)} of {len(answers)} answers are {stuck[0][0].text!r} over and over"
    return ""
