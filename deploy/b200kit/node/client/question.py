"""`ask`: one question to the model that this node serves, through its gateway, as a client asks.

Prints one JSON document: the answer's text, its TTFT, tokens and rate; or why there is none.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.client.chat import ChatAnswer, ChatRequest, chat
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.client.serving_config import ConfigError, ServingConfig, load
from b200kit.node.lib.documents import unstructure

MOST_TOKENS = 256
DEADLINES = HttpDeadlines(connect=5, idle=60, total=110)


@dataclass(frozen=True)
class AskedAnswer:
    """What came of a question; `error` says why there is no answer, or why it is not whole.

    ttft_ms and seconds: from sending to the first and to the last token.
    """

    model: str
    text: str = ""
    tokens: int | None = None
    ttft_ms: float | None = None
    seconds: float | None = None
    error: str | None = None


def main(args: list[str]) -> int:
    """`ask CONFIG QUESTION`, the question's UTF-8 in base64; the document says what came of it."""
    config, question = args
    try:
        serving = load(Path(config))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    found = asyncio.run(_ask(serving, base64.b64decode(question).decode()))
    print(json.dumps(unstructure(found)))
    return 0


async def _ask(serving: ServingConfig, question: str) -> AskedAnswer:
    request = ChatRequest(serving.model, question, MOST_TOKENS, ignore_eos=False)
    return _read(await chat(serving.endpoint(serving.gateway), request, DEADLINES))


def _read(answer: ChatAnswer) -> AskedAnswer:
    record = answer.record()
    times = [chunk.at for chunk in record.chunks if chunk.output]
    return AskedAnswer(
        answer.request.model,
        answer.text,
        record.completion_tokens,
        round((times[0] - record.sent) * 1000, 1) if times else None,
        round(times[-1] - record.sent, 3) if times else None,
        record.error,
    )
