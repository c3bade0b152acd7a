"""Completions, chat and plain: validation with vLLM's messages, the stream, and its faults."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from . import FINGERPRINT, said
from .engine import TEMPLATE_TOKENS, Engine
from .wire import Reply, Request

_numbers = itertools.count(1)


class Refused(Exception):
    """A request that is answered with an error: (status, type, message, param)."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document = {
            "error": {"message": message, "type": kind, "param": param, "code": status}
        }


@dataclass(frozen=True)
class Chat:
    """A validated request."""

    model: str
    prompt_tokens: int
    tokens: int
    stream: bool
    usage: bool
    fault: str
    number: int
    # A completion of /v1/completions: its text stands alone, in no message.
    plain: bool = False
    prompt: str = ""
    # How many of the likeliest tokens are told beside each.
    top: int = 0

    @property
    def reason(self) -> str | None:
        """Why it ends."""
        reasons = {"no-finish": None, "refuses-ignore-eos": "stop", "abort": "abort"}
        return reasons.get(self.fault, "length")


@dataclass(frozen=True)
class ChatService:
    """Answers completions for one served model."""

    engine: Engine
    model: str
    max_model_len: int

    def accept(self, request: Request) -> Chat:
        """Validate. Raises Refused with what vLLM would say."""
        body = _object(request.body)
        if body.get("model") != self.model:
            said = f"The model `{body.get('model')}` does not exist."
            raise Refused(404, "NotFoundError", said, "model")
        plain = request.path == "/v1/completions"
        prompt = _plain_prompt(body.get("prompt")) if plain else _prompt(body.get("messages"))
        wanted = body.get("max_completion_tokens", body.get("max_tokens", 16))
        if not isinstance(wanted, int) or wanted < 1:
            raise Refused(400, "BadRequestError", "max_tokens must be at least 1", "max_tokens")
        tokens = self.engine.count(prompt, str(body.get("cache_salt", "")))
        tokens -= TEMPLATE_TOKENS if plain else 0
        if tokens + wanted > self.max_model_len:
            said = f"This model's maximum context length is {self.max_model_len} tokens. However,"
            said += f" your request has {tokens} input tokens and asks for {wanted}."
            raise Refused(400, "BadRequestError", said, "input_tokens")
        options = body.get("stream_options")
        usage = isinstance(options, dict) and options.get("include_usage") is True
        number = next(_numbers)
        fault = self.engine.knobs.fault_of(number, request.headers.get("x-standin-fault"))
        stream = body.get("stream") is True
        for name in ("ignore_eos", "cache_salt"):
            if fault == f"refuses-{name.replace('_', '-')}" and name in body:
                raise Refused(400, "BadRequestError", f"Unknown parameter: {name}", name)
        if fault == "refuses-ignore-eos":
            wanted = max(1, wanted - 1)
        asked = body.get("top_logprobs") if body.get("logprobs") is True else 0
        top = asked if isinstance(asked, int) else 0
        return Chat(self.model, tokens, wanted, stream, usage, fault, number, plain, prompt, top)

    async def answer(self, chat: Chat, reply: Reply) -> None:
        """Answer it, with the fault that was asked for."""
        if chat.fault == "not-http":
            await reply.garbage()
        elif chat.fault in ("503", "500"):
            raise Refused(int(chat.fault), "ServiceUnavailableError", "stand-in: asked to refuse")
        elif chat.fault == "hang":
            await asyncio.sleep(3600)
        elif chat.stream:
            await self._stream(chat, reply)
        else:
            async for _ in self.engine.tokens(chat.tokens, chat.prompt_tokens):
                pass
            await reply.document(200, self._whole(chat))

    async def _stream(self, chat: Chat, reply: Reply) -> None:
        """The role chunk goes out with the first token, as vLLM does it."""
        opened = False
        sent = 0
        await reply.start_stream()
        async for group in self._groups(chat):
            if not opened:
                await reply.event(_chunk(chat, {"role": "assistant", "content": ""}))
                opened = True
            if sent * 2 >= chat.tokens and await self._break(chat, reply):
                return
            sent += len(group)
            text = (
                ""
                if chat.fault == "no-output"
                else "".join(said.word(chat.prompt, i, chat.fault) for i in group)
            )
            last = sent == chat.tokens
            await reply.event(_chunk(chat, {"content": text}, chat.reason if last else None))
        if chat.usage and chat.fault != "no-usage":
            await reply.event({**_base(chat, "chat.completion.chunk"), "usage": _usage(chat)})
        if chat.fault != "no-done":
            await reply.event("[DONE]")
        await reply.end_stream()

    async def _groups(self, chat: Chat) -> AsyncIterator[list[int]]:
        """Tokens in the groups that share a chunk: one each, unless the fault is "merged"."""
        size = {"merged": 4}.get(chat.fault, 1)
        group: list[int] = []
        held: list[list[int]] = []
        async for index in self.engine.tokens(chat.tokens, chat.prompt_tokens):
            group.append(index)
            if len(group) == size or index == chat.tokens - 1:
                if chat.fault == "burst":
                    held.append(group)
                else:
                    yield group
                group = []
        for late in held:
            yield late

    async def _break(self, chat: Chat, reply: Reply) -> bool:
        """Half-way: the faults that end a stream early. True when it has ended."""
        if chat.fault == "error-in-stream":
            said = "EngineCore encountered an issue. See stack trace (above) for the root cause."
            error = {"message": said, "type": "InternalServerError", "param": None, "code": 500}
            await reply.event({"error": error})
            await reply.event("[DONE]")
            await reply.end_stream()
            return True
        if chat.fault == "stall":
            await asyncio.sleep(3600)
        return chat.fault in ("cut-off", "stall")

    def _whole(self, chat: Chat) -> dict[str, object]:
        words = [said.word(chat.prompt, i, chat.fault) for i in range(chat.tokens)]
        message = {"role": "assistant", "content": "".join(words)}
        answer = {"text": message["content"]} if chat.plain else {"message": message}
        beside = None
        if chat.top and chat.fault != "no-logprobs":
            beside = said.logprobs(chat.prompt, words, chat.fault, chat.top)
        choice = {"index": 0, **answer, "logprobs": beside, "finish_reason": chat.reason}
        usage = {} if chat.fault == "no-usage" else {"usage": _usage(chat)}
        return {**_base(chat, "chat.completion"), "choices": [choice], **usage}


def _object(body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise Refused(400, "Bad Request", f"JSON decode error: {error}") from error
    if not isinstance(document, dict):
        raise Refused(400, "Bad Request", "Input should be a valid dictionary")
    return document


def _prompt(messages: object) -> str:
    """All messages' text. Raises Refused when there are none."""
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "Bad Request", "messages: Field required", "messages")
    return " ".join(str(item.get("content", "")) for item in messages if isinstance(item, dict))


def _plain_prompt(prompt: object) -> str:
    """A text, or tokens as so many words. Raises Refused when it is neither."""
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return " ".join(map(str, prompt))
    if not isinstance(prompt, str) or not prompt:
        raise Refused(400, "Bad Request", "prompt: Field required", "prompt")
    return prompt


def _base(chat: Chat, kind: str) -> dict[str, object]:
    return {
        "id": f"chatcmpl-standin-{chat.number}",
        "object": "text_completion" if chat.plain else kind,
        "created": int(time.time()),
        "model": chat.model,
        "system_fingerprint": FINGERPRINT,
        "choices": [],
    }


def _chunk(chat: Chat, delta: dict[str, str], reason: str | None = None) -> dict[str, object]:
    part = {"text": delta["content"]} if chat.plain else {"delta": delta}
    choice = {"index": 0, **part, "logprobs": None, "finish_reason": reason}
    return {**_base(chat, "chat.completion.chunk"), "choices": [choice]}


def _usage(chat: Chat) -> dict[str, int]:
    tokens = chat.tokens - 1 if chat.fault == "wrong-usage" else chat.tokens
    total = chat.prompt_tokens + tokens
    return {
        "prompt_tokens": chat.prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": total,
    }
