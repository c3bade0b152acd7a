"""Golden prompts asked of one server: greedy, one request at a time, always of the same shape.

Each request has a cache salt of its own: a prefix out of a cache would change what is computed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.golden_answer import Answer, NoLogprobs, read
from b200kit.node.client.golden_prompts import PROMPTS, TOP
from b200kit.node.client.http import Deadlines

DEADLINES = Deadlines(connect=5, idle=120, total=240)


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
    endpoint: Endpoint, model: str, tokens: int, salt: str, *, ignore_eos: bool = True
) -> Replies:
    """Ask all golden prompts for so many tokens, the next one when the last is answered."""
    began, found = time.perf_counter(), []
    for number, prompt in enumerate(PROMPTS):
        request = ChatRequest(
            model, prompt, tokens, stream=False, salt=f"{salt}-golden-{number}",
            ignore_eos=ignore_eos, extra={"logprobs": True, "top_logprobs": TOP},
        )  # fmt: skip
        try:
            found.append(await _answer(endpoint, request))
        except NoLogprobs as error:
            return Replies(unmeasured=str(error))
        except ValueError as error:
            return Replies(error=f"golden prompt {number + 1}: {error}")
    return Replies(tuple(found), seconds=time.perf_counter() - began)


async def _answer(endpoint: Endpoint, request: ChatRequest) -> Answer:
    """Raises NoLogprobs for a server that has none, ValueError for what is no answer."""
    answer = await chat(endpoint, request, DEADLINES)
    error = answer.record().error
    if error and answer.raw.code in (400, 422) and "logprob" in error:
        raise NoLogprobs(f"the server gives no log-probabilities: {error}")
    if error:
        raise ValueError(error)
    choice = json.loads(answer.raw.body())["choices"][0]
    return read((choice.get("logprobs") or {}).get("content"))
