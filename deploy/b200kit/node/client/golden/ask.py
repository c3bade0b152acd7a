"""Golden prompts asked of one server: greedy, one request at a time, always of the same shape.

Each request has a cache salt of its own: a prefix out of a cache would change what is computed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.golden.answer import Answer, NoLogprobs, Token, read
from b200kit.node.client.golden.prompts import PROMPTS, TOP
from b200kit.node.client.http import Deadlines

DEADLINES = Deadlines(connect=5, idle=120, total=240)
_WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Replies:
    """What a server said to the golden prompts, an answer a prompt.

    error: what is wrong with an answer; unmeasured: why they cannot be compared; both are empty
    where all is well. seconds: how long all of it took.
    """

    answers: tuple[Answer, ...] = ()
    error: str = ""
    unmeasured: str = ""
    seconds: float = 0.0


async def ask(
    endpoint: Endpoint,
    model: str,
    tokens: int,
    salt: str,
    *,
    ignore_eos: bool = True,
    numbers: Sequence[int] = range(len(PROMPTS)),
    deadlines: Deadlines = DEADLINES,
) -> Replies:
    """Ask golden prompts, by default all, the next one when the last is answered."""
    began, found = time.perf_counter(), []
    for number in numbers:
        request = ChatRequest(
            model, PROMPTS[number], tokens, stream=False, salt=f"{salt}-golden-{number}",
            ignore_eos=ignore_eos, extra={"logprobs": True, "top_logprobs": TOP},
        )  # fmt: skip
        try:
            found.append(await _answer(endpoint, request, deadlines))
        except NoLogprobs as error:
            return Replies(unmeasured=str(error))
        except ValueError as error:
            return Replies(error=f"golden prompt {number + 1}: {error}")
    return Replies(tuple(found), seconds=time.perf_counter() - began)


async def ask_words(
    endpoint: Endpoint, model: str, tokens: int, salt: str, *, ignore_eos: bool = True
) -> Replies:
    """The golden prompts of a server without log-probabilities: each word stands for a token.

    Enough to see what is no answer at all; too little to compare.
    """
    found = []
    for number, prompt in enumerate(PROMPTS):
        request = ChatRequest(
            model, prompt, tokens, stream=False, salt=f"{salt}-words-{number}",
            ignore_eos=ignore_eos,
        )  # fmt: skip
        answer = await chat(endpoint, request, DEADLINES)
        if error := answer.record().error:
            return Replies(error=f"golden prompt {number + 1}: {error}")
        words = _WORDS.findall(answer.text)
        found.append(tuple(Token(word, 0.0, {}) for word in words))
    return Replies(tuple(found))


async def _answer(endpoint: Endpoint, request: ChatRequest, deadlines: Deadlines) -> Answer:
    """Raises NoLogprobs for a server that has none, ValueError for what is no answer."""
    answer = await chat(endpoint, request, deadlines)
    error = answer.record().error
    if error and answer.raw.code in (400, 422) and "logprob" in error:
        raise NoLogprobs(f"the server gives no log-probabilities: {error}")
    if error:
        raise ValueError(error)
    return tuple(one.rounded() for one in read(answer.logprobs()))
