"""The client against the stand-in, fault by fault."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from b200kit.node.client.chat import ChatAnswer, ChatRequest, Endpoint, chat, server_message
from b200kit.node.client.formulas import RequestRecord, Run, summary, timing, tokens_per_chunk
from b200kit.node.client.http import Exchange, HttpDeadlines
from b200kit.node.state.serving import Objective as Slo
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.node.client.server_thread import MODEL, fast, running

TOKENS = 12


def ask(url: str, key: str | None = None, idle: float = 20.0, **change: Any) -> ChatAnswer:
    """One request to a server."""
    values: dict[str, Any] = {"model": MODEL, "prompt": "amber anchor", "max_tokens": TOKENS}
    request = ChatRequest(**(values | change))
    return asyncio.run(chat(Endpoint(url, key), request, HttpDeadlines(20, idle, 60)))


def faulty(fault: str, idle: float = 20.0, **change: Any) -> RequestRecord:
    """The record of one request to a server with that fault."""
    with running(fast(fault)) as url:
        return ask(url, idle=idle, **change).record()


def test_a_complete_stream_has_counts_reason_and_ordered_times() -> None:
    with running() as url:
        answer = ask(url)
    record = answer.record()
    assert record.error is None
    assert (record.prompt_tokens, record.completion_tokens) == (15, TOKENS)
    assert record.finish_reason == "length"
    assert [chunk.output for chunk in record.chunks] == [False] + [True] * TOKENS
    assert answer.text.startswith("the quiet river bends")
    times = [record.sent, *(chunk.at for chunk in record.chunks), record.ended or 0.0]
    assert times == sorted(times)


def test_the_latencies_relate_as_their_formulas_say() -> None:
    with running() as url:
        record = ask(url).record()
    found = timing(record)
    assert found is not None
    assert found.tpot is not None
    assert 0 < found.ttft <= found.e2el
    assert found.tpot * (TOKENS - 1) == pytest.approx(found.e2el - found.ttft)
    assert sum(found.gaps) == pytest.approx(found.e2el - found.ttft)
    assert len(found.gaps) == TOKENS - 1


def test_an_answer_that_is_not_streamed() -> None:
    with running() as url:
        record = ask(url, stream=False).record()
    assert record.error is None
    assert record.completion_tokens == TOKENS


@in_subtests(
    "fault",
    [
        "error-in-stream",
        "cut-off",
        "no-done",
        "no-finish",
        "no-usage",
        "wrong-usage",
        "no-output",
        "abort",
        "503",
        "500",
        "not-http",
    ],
)
def test_each_fault_is_named(fault: str) -> None:
    error = faulty(fault).error
    assert error is not None
    assert_message(error)


def test_a_stall_ends_at_the_read_deadline_and_not_before() -> None:
    record = faulty("stall", idle=0.5)
    assert_message(record.error)
    assert record.ended is not None
    assert record.ended - record.chunks[-1].at >= 0.49


def test_a_fault_without_streaming_is_named_too() -> None:
    assert faulty("no-usage", stream=False).error == "no usage"
    assert faulty("no-finish", stream=False).error == "no finish_reason"
    assert faulty("abort", stream=False).error == "finish_reason is 'abort'"


def recorded(kind: str, body: str, *, stream: bool = True) -> RequestRecord:
    """The record of an answer with HTTP 200 and this body."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    raw = Exchange(0.0, [(1.0, (head + body).encode())], ended=1.0)
    return ChatAnswer(ChatRequest(MODEL, "x", 1, stream=stream), 0.0, raw).record()


@in_subtests(
    ("reason", "whole"),
    [
        *((reason, True) for reason in ("stop", "length", "tool_calls", "function_call")),
        ("content_filter", True),
        *((reason, False) for reason in ("abort", "error", "repetition", "other", None, 3, "")),
    ],
)
def test_an_answer_that_was_given_up_has_failed(reason: object, whole: bool) -> None:
    choice = {"delta": {"content": "a"}, "finish_reason": reason}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    event = json.dumps({"choices": [choice], "usage": usage})
    error = recorded("text/event-stream", f"data: {event}\n\ndata: [DONE]\n\n").error
    assert (error is None) is whole
    assert error is None or "finish_reason" in error
    plain = json.dumps({"choices": [choice | {"message": choice["delta"]}], "usage": usage})
    assert recorded("application/json", plain, stream=False).error == error


DEEP = "[" * 100_000
NONE = ["[1]", '"text"', "7", DEEP, '{"choices": [], "choices": []}', '{"created": 1e999}', "{"]


@in_subtests("body", NONE)
def test_an_answer_that_is_no_object_is_one_line(body: str) -> None:
    kinds = (("application/json", body, False), ("text/event-stream", f"data: {body}\n\n", True))
    for kind, content, stream in kinds:
        error = recorded(kind, content, stream=stream).error or ""
        assert 0 < len(error) < 200, kind
        assert "\n" not in error


@in_subtests(
    ("kind", "body", "stream"),
    [
        ("application/json", '{"error": {"message": "no LoRA of that name"}}', True),
        ("Application/JSON; charset=utf-8", '{"detail": "no LoRA of that name"}', True),
        ("application/json", '{"object": "error", "message": "no LoRA of that name"}', True),
        ("text/html", "<p>no LoRA of that name</p>", True),
        ("text/html", "<p>no LoRA of that name</p>", False),
        ("application/json", '{"object": "error", "message": "no LoRA of that name"}', False),
        ("text/event-stream", 'data: {"error": {"message": "no LoRA of that name"}}\n\n', False),
    ],
)
def test_a_body_of_another_form_is_shown(kind: str, body: str, stream: bool) -> None:
    error = recorded(kind, body, stream=stream).error
    assert error is not None
    assert "no LoRA of that name" in error


def test_merged_chunks_leave_tokens_right_and_show_as_tokens_per_chunk() -> None:
    record = faulty("merged")
    assert record.error is None
    run = Run((record,))
    assert tokens_per_chunk(run) == 4.0
    found = summary(run, Slo())
    assert (found.ttft.n, found.tpot.n, found.itl.n, found.e2el.n) == (1, 1, 2, 1)


def test_the_key_is_sent_and_its_lack_is_named() -> None:
    with running(key="k-1") as url:
        assert ask(url, "k-1").record().error is None
        assert ask(url).record().error == "HTTP 401: Unauthorized"
        assert "k-1" not in repr(Endpoint(url, "k-1"))


def test_an_unknown_model_and_a_prompt_too_long_say_what_the_server_said() -> None:
    with running(model_len=64) as url:
        unknown = ask(url, model="nope").record().error
        long = ask(url, prompt="word " * 100).record().error
    assert_message(unknown, long)


def test_nobody_listening_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    record = ask(f"http://127.0.0.1:{port}").record()
    assert record.error is not None
    assert record.error.startswith(f"cannot connect to 127.0.0.1:{port}: ")


def test_the_schedule_travels_with_the_request() -> None:
    request = ChatRequest(MODEL, "x", 2)
    with running() as url:
        record = asyncio.run(chat(Endpoint(url), request, None, scheduled=5.0)).record()
    assert record.scheduled == 5.0


@in_subtests(
    ("status", "fields", "said"),
    [
        (301, {"location": "https://b/v1"}, ["HTTP 301 to https://b/v1", "not followed"]),
        (307, {}, ["HTTP 307"]),
        (200, {"content-type": "text/plain"}, ["HTTP 200 in text/plain: data: x"]),
        (503, {"content-type": "text/plain"}, ["HTTP 503: data: x"]),
    ],
)
def test_answer_of_another_form_or_place_names_it(
    status: int, fields: dict[str, str], said: list[str]
) -> None:
    message = server_message(status, b"data: x", fields)
    assert [part for part in said if part not in message] == []


@in_subtests("done", ["data: [DONE]", "data:[DONE]", "data: [DONE] ", "data: [DONE]\r"])
def test_end_of_a_stream_is_read_with_blanks_around_it(done: str) -> None:
    choice = {"delta": {"content": "a"}, "finish_reason": "stop"}
    event = json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})
    assert recorded("text/event-stream", f"data: {event}\n\n{done}\n\n").error is None


@in_subtests(
    ("body", "said"),
    [
        (b"", "HTTP 502"),
        (b"<html>\n bad gateway</html>", "HTTP 502: <html> bad gateway</html>"),
        (b'{"detail": "Not Found"}', "HTTP 502: Not Found"),
        (b'{"error": {"message": "m"}}', "HTTP 502: m"),
        (b'{"error": {"code": 3}}', "HTTP 502: {'code': 3}"),
        (b"[1]", "HTTP 502: [1]"),
        (b"[" * 1000, f"HTTP 502: {'[' * 200}"),
    ],
)
def test_messages_of_any_shape(body: bytes, said: str) -> None:
    assert server_message(502, body, {}) == said


def test_the_body_asks_for_what_a_measurement_needs() -> None:
    body = ChatRequest("m", "p", 7, salt="s").body()
    assert body["stream_options"] == {"include_usage": True}
    assert (body["ignore_eos"], body["temperature"], body["cache_salt"]) == (True, 0.0, "s")
    assert "cache_salt" not in ChatRequest("m", "p", 7).body()
    assert "stream_options" not in ChatRequest("m", "p", 7, stream=False).body()
