"""Chat completions against an OpenAI-compatible server, judged as strictly as a user would.

Token counts come from `usage` only. An answer is complete when it has output, a finish_reason of
one that ended by itself, usage and `[DONE]`, and no error object, even inside a 200 stream (vLLM
reports an engine that dies in the middle that way).
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field

from b200kit.node.client.formulas import Chunk, RequestRecord
from b200kit.node.client.http import Exchange, HttpDeadlines, exchange
from b200kit.node.client.message import MAX_BODY, Fields, HttpError
from b200kit.node.lib.documents import Object, decode, parse

# How an answer ends that nobody gave up, by the OpenAI API. vLLM also says abort, error and
# repetition, with HTTP 200 and [DONE] (FINISH_REASON_STRINGS of vllm/v1/engine, 0.32.0).
_FINISHED = ("stop", "length", "tool_calls", "function_call", "content_filter")


@dataclass
class Tally:
    """How many requests were sent to an endpoint, each counted before its first byte."""

    sent: int = 0


@dataclass(frozen=True)
class Endpoint:
    """A server: base URL without /v1, its API key (never printed), the certificates to accept.

    refused: members of a request's body that it takes offence at, which are not sent.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    trust: str | None = None
    tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    refused: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def headers(self) -> dict[str, str]:
        """The authorization header, when there is a key."""
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    async def get(self, path: str, deadlines: HttpDeadlines | None = None) -> Exchange:
        """GET a path below the base URL."""
        url = self.url.rstrip("/") + path
        self.tally.sent += 1
        return await exchange("GET", url, self.headers, None, deadlines, self.trust)


@dataclass(frozen=True)
class ChatRequest:
    """One completion; `salt` isolates it from the prefix cache of other runs.

    extra: further body members (top_p, response_format, ...). token_ids: the prompt as exactly
    these tokens, sent to /v1/completions, as a chat template would add tokens of its own.
    """

    model: str
    prompt: str
    max_tokens: int
    temperature: float = 0.0
    stream: bool = True
    ignore_eos: bool = True
    salt: str | None = None
    extra: dict[str, object] = field(default_factory=dict)
    system: str | None = None
    token_ids: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        """Where it is sent."""
        return "/v1/completions" if self.token_ids else "/v1/chat/completions"

    @property
    def media_type(self) -> str:
        """What it is answered in."""
        return "text/event-stream" if self.stream else "application/json"

    def _requested(self) -> dict[str, object]:
        if self.token_ids:
            return {"prompt": list(self.token_ids)}
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {"messages": [*system, {"role": "user", "content": self.prompt}]}

    def body(self) -> dict[str, object]:
        """The JSON body."""
        body: dict[str, object] = {
            "model": self.model,
            **self._requested(),
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream": self.stream,
            **({"ignore_eos": True} if self.ignore_eos else {}),
            **({"cache_salt": self.salt} if self.salt else {}),
            **({"stream_options": {"include_usage": True}} if self.stream else {}),
        }
        return body | self.extra


@dataclass
class ChatAnswer:
    """A chat completion as read from the wire: `raw` first, decoded by `record()` and `text`."""

    request: ChatRequest
    scheduled: float
    raw: Exchange
    text: str = ""
    _record: RequestRecord | None = None

    def record(self) -> RequestRecord:
        """Decode (once) into the record that the latency formulas take."""
        if self._record is None:
            reading = _Reading()
            try:
                reading.take(self.raw, self.request)
            except (HttpError, ValueError) as error:
                reading.error = reading.error or self.raw.fault or str(error)
            self.text = "".join(reading.text)
            self._record = reading.finish(self)
        return self._record

    def logprobs(self) -> object:
        """`choices[0].logprobs.content` of a complete answer that was not streamed."""
        found = self.raw.document()["choices"][0].get("logprobs")
        return found.get("content") if isinstance(found, dict) else None


async def chat(
    endpoint: Endpoint,
    request: ChatRequest,
    deadlines: HttpDeadlines | None = None,
    scheduled: float | None = None,
) -> ChatAnswer:
    """Send one request; `scheduled` (perf_counter seconds) is when it should have gone out."""
    due = time.perf_counter() if scheduled is None else scheduled
    url = endpoint.url.rstrip("/") + request.path
    body = {k: v for k, v in request.body().items() if k not in endpoint.refused}
    endpoint.tally.sent += 1
    raw = await exchange("POST", url, endpoint.headers, body, deadlines, endpoint.trust)
    return ChatAnswer(request, due, raw)


def server_message(status: int, body: bytes, fields: Fields) -> str:
    """The status and the server's message, from an error answer of any of vLLM's shapes.

    Where there is no error in it: the form of an answer that was to have another one.
    """
    text, form = body.decode("utf-8", "replace").strip(), fields.get("content-type")
    error = None
    with contextlib.suppress(ValueError):
        error = _error_text(parse(text, MAX_BODY))
    said = f"HTTP {status}"
    if status == 200 and not error and form:
        said += f" in {' '.join(form.split())[:60]}"
    if 300 <= status < 400 and (place := fields.get("location")):
        said += f" to {place[:200]}, which is not followed: give the URL that answers itself"
    return f"{said}: {' '.join((error or text).split())[:200]}" if text else said


def _error_text(document: object) -> str | None:
    """The message inside {"error": {"message"}}, {"error": text}, {"detail": text} or, of vLLM
    before 0.10, {"object": "error", "message": text}.
    """
    if not isinstance(document, dict):
        return None
    error = document.get("error", document.get("detail"))
    if document.get("object") == "error":
        error = document
    if isinstance(error, dict):
        error = error.get("message", error)
    return str(error) if error else None


class _Reading:
    """Collects what the decoded answer holds, and the first thing that is wrong with it."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.text: list[str] = []
        self.usage: dict[str, object] = {}
        self.finish_reason: str | None = None
        self.error: str | None = None
        self.done = False

    def take(self, raw: Exchange, request: ChatRequest) -> None:
        """Read a whole exchange. Raises HttpError or ValueError for what is not an answer."""
        if raw.fault and not raw.pieces:
            self.error = raw.fault
        elif raw.status != 200 or raw.media_type not in ("", request.media_type):
            body = b"".join(data for _, data in raw.segments()[0])
            self.error = server_message(raw.status, body, raw.head[1])
        elif request.stream:
            for at, event in raw.events():
                self._event(at, event)
            self._check(raw, request)
        else:
            self._document(raw.ended or raw.sent, raw.document())
            self.done = True
            self._check(raw, request)

    def _event(self, at: float, event: str) -> None:
        if event.strip() == "[DONE]":
            self.done = True
            return
        self._document(at, decode(Object, event, MAX_BODY, f"the event {event[:80]!r}"))

    def _document(self, at: float, document: dict[str, object]) -> None:
        """One chunk, or the whole of an answer that is not streamed."""
        if error := _error_text(document):
            self.error = self.error or f"error inside the answer: {error}"
            return
        usage, choices = document.get("usage"), document.get("choices")
        if isinstance(usage, dict):
            self.usage = usage
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        choice = choices[0]
        delta = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
        reason = choice.get("finish_reason")
        self.finish_reason = str(reason) if reason else self.finish_reason
        self.text.append(_text(delta))
        self.chunks.append(Chunk(at, _has_output(delta)))

    def _check(self, raw: Exchange, request: ChatRequest) -> None:
        """The first thing that makes this answer incomplete or wrong."""
        tokens = self._count("completion_tokens")
        short = request.ignore_eos and tokens is not None and tokens != request.max_tokens
        with_text = sum(map(bool, self.text))
        findings = (
            (raw.fault is not None, str(raw.fault)),
            (not self.done, "the stream was cut off before [DONE]"),
            (self.finish_reason is None, "no finish_reason"),
            (self.finish_reason not in _FINISHED, f"finish_reason is {self.finish_reason!r}"),
            (tokens is None or self._count("prompt_tokens") is None, "no usage"),
            (short, f"usage says {tokens} tokens, {request.max_tokens} were asked for"),
            (request.stream and with_text == 0, "the answer has no output"),
            (request.stream and (tokens or 0) < with_text, "usage counts less than the chunks"),
        )
        self.error = self.error or next((text for wrong, text in findings if wrong), None)

    def _count(self, name: str) -> int | None:
        value = self.usage.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def finish(self, answer: ChatAnswer) -> RequestRecord:
        """The record of what was read."""
        return RequestRecord(
            scheduled=answer.scheduled,
            sent=answer.raw.sent,
            chunks=tuple(self.chunks),
            prompt_tokens=self._count("prompt_tokens"),
            completion_tokens=self._count("completion_tokens"),
            finish_reason=self.finish_reason,
            ended=answer.raw.ended,
            error=self.error,
            connected=answer.raw.connected,
        )


def _has_output(delta: object) -> bool:
    """Whether a token came with it, by the rule of `vllm bench serve`.

    A token may have no text, as a special one; the chunk that opens an answer has a role
    (vllm/benchmarks/lib/endpoint_request_func.py, `_choice_has_streamed_output`, 0.33.0).
    """
    if not isinstance(delta, dict):
        return False
    return bool(_text(delta)) or (delta.get("content") == "" and "role" not in delta)


def _text(delta: object) -> str:
    """Content, reasoning and tool-call text of a delta or message, joined; "" for role only."""
    if not isinstance(delta, dict):
        return ""
    keys = ("content", "reasoning", "reasoning_content")
    parts = [delta[key] for key in keys if isinstance(delta.get(key), str)]
    if delta.get("tool_calls"):
        parts.append(json.dumps(delta["tool_calls"]))
    return "".join(dict.fromkeys(parts))
