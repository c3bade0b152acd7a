"""Prompts asked of one server for their tokens: greedy, one request at a time, of one shape.

Each request has a cache salt of its own: a prefix out of a cache would change what is computed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.golden.answer import Answer, NoLogprobs, Token, read
from b200kit.node.client.golden.prompts import PROMPTS, TOP
from b200kit.node.client.http import HttpDeadlines

DEADLINES = HttpDeadlines(connect=5, idle=120, total=240)
_WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Replies:
    """What a server said, an answer a prompt.

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
    prompts: Sequence[str] = PROMPTS,
    top: int = TOP,
    ignore_eos: bool = True,
    as_words: bool = False,
    deadlines: HttpDeadlines = DEADLINES,
    progress: Callable[[int, int], None] | None = None,
) -> Replies:
    """Ask prompts, by default the golden ones, the next one when the last is answered.

    as_words: of a server without log-probabilities; each word stands for a token. That is enough to
    see what is no answer at all, and too little to compare. progress: called with how many of how
    many are answered.
    """
    began, found = time.perf_counter(), []
    extra: dict[str, object] = {} if as_words else {"logprobs": True, "top_logprobs": top}
    for number, prompt in enumerate(prompts, 1):
        request = ChatRequest(
            model, prompt, tokens, stream=False, salt=f"{salt}-golden-{number}",
            ignore_eos=ignore_eos, extra=extra,
        )  # fmt: skip
        answer = await chat(endpoint, request, deadlines)
        error = answer.record().error
        try:
            if error:
                refused = extra and answer.raw.code in (400, 422) and "logprob" in error
                why = f"the server gives no log-probabilities: {error}"
                raise NoLogprobs(why) if refused else ValueError(error)
            said = _words(answer.text) if as_words else read(answer.logprobs())
        except NoLogprobs as missing:
            return Replies(unmeasured=str(missing))
        except ValueError as wrong:
            return Replies(error=f"prompt {number}: {wrong}")
        found.append(tuple(one.rounded() for one in said))
        if progress:
            progress(number, len(prompts))
    return Replies(tuple(found), seconds=time.perf_counter() - began)


def _words(text: str) -> Answer:
    return tuple(Token(word, 0.0, {}) for word in _WORDS.findall(text))
