"""Divergence of answers: exact where it can be worked out by hand, honest where it cannot."""

from __future__ import annotations

import math
import random

import pytest

from b200kit.node.client.golden.answer import Answer, Token
from b200kit.quality import divergence
from tests.sample import sample

EVEN = {"a": math.log(0.5), "b": math.log(0.5)}
UNEVEN = {"a": math.log(0.75), "b": math.log(0.25)}


def token(text: str, top: dict[str, float]) -> Token:
    """The token of one place."""
    return Token(text, top.get(text, -9.0), top)


def answer(*texts: str, top: dict[str, float] | None = None) -> Answer:
    """Tokens of one answer, with the same likeliest tokens everywhere."""
    return tuple(token(text, top or EVEN) for text in texts)


def test_divergence_of_a_place_is_the_formula() -> None:
    found = divergence.kl(token("a", EVEN), token("a", UNEVEN))
    exact = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert found == pytest.approx(exact, abs=1e-5)
    assert divergence.kl(token("a", EVEN), token("a", EVEN)) == 0


def test_tokens_that_one_server_does_not_name_count_together_and_never_too_much() -> None:
    """A long tail, of which either server names the five likeliest alone."""
    chance = random.Random(7)
    for _ in range(50):
        ours, theirs = (shares(chance) for _ in range(2))
        exact = sum(p * math.log(p / theirs[text]) for text, p in ours.items())
        assert 0 <= divergence.kl(token("0", top(ours)), token("0", top(theirs))) <= exact + 1e-9


def shares(chance: random.Random) -> dict[str, float]:
    """A distribution over 40 tokens."""
    drawn = {str(number): chance.expovariate(1) ** 3 + 1e-6 for number in range(40)}
    return {text: value / sum(drawn.values()) for text, value in drawn.items()}


def top(distribution: dict[str, float]) -> dict[str, float]:
    """The five likeliest, as log-probabilities."""
    best = sorted(distribution, key=lambda text: -distribution[text])[:5]
    return {text: math.log(distribution[text]) for text in best}


def test_what_follows_another_token_is_not_compared() -> None:
    ours = [answer("a", "b", "a", "a"), answer("a", "a", "a", "a")]
    theirs = [answer("a", "a", "b", "b"), answer("a", "a", "a", "a")]
    found = divergence.of(ours, theirs)
    assert (found.prompts, found.places) == (2, 6)
    assert found.flips[1] == pytest.approx(1 / 6, abs=1e-6)


def test_an_answer_that_ends_where_the_other_goes_on_is_another() -> None:
    found = divergence.of([answer("a", "a"), answer("a")], [answer("a"), answer("a")])
    assert (found.places, found.flips[1]) == (2, 0.5)


def test_intervals_hold_what_is_true() -> None:
    """Of 200 comparisons drawn from a known rate, the 95 % intervals leave it out in about 5 %.

    A run takes the first 40 of them.
    """
    chance, missed, runs = random.Random(11), 0, len(sample(range(200), 5))
    for _ in range(runs):
        pairs = [drawn(chance, 0.05) for _ in range(64)]
        found = divergence.of([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
        missed += not found.flips[0] <= 0.05 <= found.flips[2]
    assert missed <= runs / 10


def drawn(chance: random.Random, rate: float) -> tuple[Answer, Answer]:
    """Two answers of 64 tokens, of which one in so many is another."""
    theirs = ["b" if chance.random() < rate else "a" for _ in range(64)]
    return answer(*["a"] * 64), answer(*theirs)


def test_one_prompt_has_no_interval() -> None:
    with pytest.raises(ValueError, match="two prompts"):
        divergence.of([answer("a")], [answer("a")])
