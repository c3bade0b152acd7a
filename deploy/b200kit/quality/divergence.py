"""How far a candidate's answers lie from a reference's, token by token. Pure.

Both answer the same prompts greedily. Up to the first token in which they differ, that one
included, both had the same text before them, so each of these places shows two probability
distributions over the same question. What comes after is another text and is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from b200kit.node.client.golden.answer import Answer, Token
from b200kit.node.client.percentiles import proportion
from b200kit.records import statistics
from b200kit.records.entries import Divergence

CONFIDENCE = 0.95


def of(reference: Sequence[Answer], candidate: Sequence[Answer]) -> Divergence:
    """The divergence of answers to the same prompts, in order.

    Raises ValueError where there are not as many on both sides, or too few for an interval.
    """
    pairs = list(zip(reference, candidate, strict=True))
    if len(pairs) < 2:
        raise ValueError("two prompts or more are needed for an interval")
    found = [_of_prompt(ours, theirs) for ours, theirs in pairs]
    places = sum(len(kl) for kl, _ in found)
    flips = sum(flipped for _, flipped in found)
    if not places:
        raise ValueError("there are no tokens to compare")
    low, high = proportion(flips, places, CONFIDENCE)
    mean = _mean([kl for kl, _ in found])
    return Divergence(len(pairs), places, _rounded(mean), _rounded((low, flips / places, high)))


def _rounded(ends: tuple[float, float, float]) -> tuple[float, float, float]:
    low, found, high = (round(value, 6) for value in ends)
    return low, found, high


def _of_prompt(reference: Answer, candidate: Answer) -> tuple[list[float], int]:
    """The divergence at each place, and whether another token, or an end, ended the comparison."""
    found = []
    for ours, theirs in zip(reference, candidate, strict=False):
        found.append(kl(ours, theirs))
        if ours.text != theirs.text:
            return found, 1
    return found, int(len(reference) != len(candidate))


def kl(reference: Token, candidate: Token) -> float:
    """Kullback-Leibler divergence at one place in nats, at least.

    A server names its likeliest tokens alone. Those that both name count by themselves, all others
    together as one: what is put together diverges no more than its parts.
    """
    both = [text for text in reference.top if text in candidate.top]
    ours = [math.exp(reference.top[text]) for text in both]
    theirs = [math.exp(candidate.top[text]) for text in both]
    shares = [*zip(ours, theirs, strict=True), (_rest(ours), _rest(theirs))]
    return max(0.0, sum(p * math.log(p / q) for p, q in shares if p > 0))


def _rest(shares: Sequence[float]) -> float:
    """What is left for all other tokens; log-probabilities are rounded, so never nothing."""
    return max(1 - sum(shares), 1e-6)


def _mean(prompts: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Mean over all places with its interval. Places of one prompt are alike, prompts are not."""
    places, total = sum(map(len, prompts)), math.fsum(map(math.fsum, prompts))
    mean, many = total / places, len(prompts)
    off = math.fsum((math.fsum(one) - mean * len(one)) ** 2 for one in prompts)
    error = math.sqrt(off * many / (many - 1)) / places
    wide = statistics.quantile(CONFIDENCE, many - 1) * error
    return max(0.0, mean - wide), mean, mean + wide


def same(reference: Sequence[Answer], candidate: Sequence[Answer]) -> bool:
    """Whether the answers are equal to the last digit, as of one server that was asked twice."""
    return list(reference) == list(candidate)
