"""Golden answers made up: each token clearly the likeliest of its place, unless asked otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from b200kit.node.client.golden import Replies
from b200kit.node.client.golden_answer import Answer, Token

LENGTH = 8


def token(text: str, lead: float = 2.0) -> Token:
    """A token that is likelier by *lead* than "other"."""
    return Token(text, -0.5, {text: -0.5, "other": -0.5 - lead, "third": -4.0})


def answers(prompts: int = 6) -> tuple[Answer, ...]:
    """Sound answers, another one to each prompt."""
    return tuple(
        tuple(token(f"w{prompt}.{place}") for place in range(LENGTH)) for prompt in range(prompts)
    )


def changed(
    change: Callable[[Token], Token], prompt: int = 2, place: int = 3
) -> tuple[Answer, ...]:
    """Sound answers but for one token."""
    found = [list(answer) for answer in answers()]
    found[prompt][place] = change(found[prompt][place])
    return tuple(map(tuple, found))


def less_sure(by: float) -> Callable[[Token], Token]:
    """The same token at another log-probability."""

    def change(one: Token) -> Token:
        value = one.logprob - by
        return Token(one.text, value, {**one.top, one.text: value})

    return change


def another(one: Token) -> Token:
    """What another token would look like in its place."""
    return Token("other", one.logprob, {"other": one.logprob, one.text: one.top["other"]})


def replies(said: Sequence[Answer]) -> Replies:
    """A server that said so."""
    return replace(Replies(), answers=tuple(said))
