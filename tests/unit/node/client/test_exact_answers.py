"""Every kind of answer a server can give, played byte for byte: each has its exact result.

No assertion here is about how fast this machine is: counts, words, and inequalities of stamps of
one clock that hold on any machine (nothing is seen before it was sent).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from b200kit.node.client.chat import ChatRequest, Endpoint, chat
from b200kit.node.client.formulas import RequestRecord, Run, summary, timing, tokens_per_chunk
from b200kit.node.client.http import HttpDeadlines
from b200kit.node.state.serving import Objective
from tests.unit.node.client.scores import (
    DONE,
    HEAD,
    LAST,
    ROLE,
    Score,
    delta,
    even,
    event,
    framed,
    playing,
    stream,
    usage,
)

SHORT = HttpDeadlines(connect=20, idle=0.3, total=60)
LONG = HttpDeadlines(connect=20, idle=20, total=60)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """One player for all."""
    with playing() as url:
        yield url


def ask(
    url: str, score: Score, tokens: int = 4, deadlines: HttpDeadlines = LONG
) -> tuple[RequestRecord, dict[str, Any]]:
    """The record of one request that is answered by a score, and what the player noted of it."""
    extra: dict[str, object] = {"score": {"name": "one", "steps": score}}
    request = ChatRequest("score", "play", tokens, extra=extra)

    async def both() -> tuple[RequestRecord, bytes]:
        endpoint = Endpoint(url)
        record = (await chat(endpoint, request, deadlines)).record()
        return record, (await endpoint.get("/log")).body()

    record, log = asyncio.run(both())
    play: dict[str, Any] = json.loads(log)["plays"][-1]
    return record, play


def at_once(*chunks: str) -> Score:
    """An answer of these HTTP chunks, all at once, ended as it should be."""
    return [[0.0, HEAD + "".join(map(framed, chunks)) + LAST], [0.0, "end"]]


WORDS = [delta(content=f"w{i} ") for i in range(3)]
FINAL = delta("length", content="end")
GOOD = [ROLE, *WORDS, FINAL, usage(4), DONE]
ERROR = event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
INSIDE = "error inside the answer: EngineCore encountered an issue."


def textwrap(width: int) -> list[str]:
    """The good answer in pieces of so many characters."""
    text = "".join(GOOD)
    return [text[i : i + width] for i in range(0, len(text), width)]


@dataclass(frozen=True)
class Whole:
    """What is read of a complete answer: chunks with output, tokens, gaps, tokens a chunk."""

    score: Score
    outputs: int
    tokens: int = 4
    gaps: int = 3
    a_chunk: float = 1.0


COUNTED = [
    event({"choices": [{"delta": {"content": "x"}}], "usage": {"completion_tokens": i + 1}})
    for i in range(3)
]
WHOLE = {
    "a chunk a token": Whole(at_once(*GOOD), 4),
    "no role-only chunk": Whole(at_once(*GOOD[1:]), 4),
    "several tokens in a chunk": Whole(
        at_once(ROLE, *WORDS, FINAL, usage(12), DONE), 4, tokens=12, gaps=3, a_chunk=3.0
    ),
    "several events in one piece": Whole(at_once("".join(GOOD)), 4),
    "events cut anywhere": Whole(at_once(*textwrap(7)), 4),
    "comments in between": Whole(at_once(": ping\n\n", ROLE, ": ping\n\n", *GOOD[1:]), 4),
    "lines that end in CR LF": Whole(at_once(*(text.replace("\n", "\r\n") for text in GOOD)), 4),
    "a line separator inside JSON": Whole(
        at_once(ROLE, *WORDS, FINAL.replace("end", "\u2028"), *GOOD[-2:]), 4
    ),
    "usage in every chunk": Whole(at_once(ROLE, *COUNTED, FINAL, usage(4), DONE), 4),
    "usage beside the last choice": Whole(at_once(ROLE, *WORDS, event({
        "choices": [{"delta": {"content": "end"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 4},
    }), DONE), 4),
    "an empty chunk with the finish_reason": Whole(
        at_once(ROLE, *WORDS, delta(content="end"), delta("length"), usage(4), DONE), 4
    ),
    "a first token without text": Whole(
        at_once(ROLE, delta(content=""), *WORDS[1:], FINAL, usage(4), DONE), 4
    ),
    "trailers after the last chunk": Whole(
        [[0.0, HEAD + "".join(map(framed, GOOD)) + "0\r\nx-took: 7\r\n\r\n"]], 4
    ),
    "a last chunk that is cut in two": Whole(
        [[0.0, HEAD + "".join(map(framed, GOOD)) + LAST[:4]], [0.05, LAST[4:]]], 4
    ),
    "reasoning before content": Whole(
        at_once(ROLE, delta(reasoning="hm"), *WORDS[1:], FINAL, usage(4), DONE), 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_complete_answer_is_counted_exactly(server: str, name: str) -> None:
    want = WHOLE[name]
    record, _ = ask(server, want.score, want.tokens)
    found = timing(record)
    assert record.error is None
    assert found is not None
    assert sum(chunk.output for chunk in record.chunks) == want.outputs
    assert (record.prompt_tokens, record.completion_tokens) == (20, want.tokens)
    assert record.finish_reason == "length"
    assert len(found.gaps) == want.gaps
    assert tokens_per_chunk(Run((record,))) == want.a_chunk
    assert found.tpot == pytest.approx((found.e2el - found.ttft) / (want.tokens - 1))


HALF = HEAD + framed(ROLE) + framed(WORDS[0])
REFUSED = "HTTP/1.1 503 -\r\ncontent-length: {}\r\n\r\n{}"
BUSY = '{"error": {"message": "the queue is full", "code": 503}}'
FAILED = {
    "503": ([[0.0, REFUSED.format(len(BUSY), BUSY)], [0.0, "end"]], "HTTP 503: the queue is full"),
    "503 of a proxy": (
        [[0.0, "HTTP/1.0 503 -\r\n\r\n<h1>No server</h1>"], [0.0, "end"]],
        "HTTP 503: <h1>No server</h1>",
    ),
    "error instead of a stream": (at_once(ERROR, DONE), INSIDE),
    "error in the middle": (at_once(*GOOD[:3], ERROR, DONE), INSIDE),
    "truncated": ([[0.0, HALF], [0.0, "end"]], "the stream was cut off before [DONE]"),
    "truncated inside an event": (
        [[0.0, HALF + "40\r\ndata: {\"choi"], [0.0, "end"]],
        "the stream was cut off before [DONE]",
    ),
    "reset": (
        [[0.0, HALF], [0.1, "reset"]],
        "connection lost: [Errno 104] Connection reset by peer",
    ),
    "closed without a word": ([[0.0, "end"]], "the connection closed before an answer came"),
    "stalled": ([[0.0, HALF], [5.0, "end"]], "stalled: no data for 0.3 s"),
    "no first byte": ([[5.0, HEAD]], "stalled: no data for 0.3 s"),
    "no finish_reason": (at_once(*GOOD[:4], delta(content="x"), *GOOD[-2:]), "no finish_reason"),
    "no usage": (at_once(*GOOD[:-2], DONE), "no usage"),
    "usage without the prompt": (
        at_once(*GOOD[:-2], event({"choices": [], "usage": {"completion_tokens": 4}}), DONE),
        "no usage",
    ),
    "usage of something else": (
        at_once(*GOOD[:-2], usage(5), DONE),
        "usage says 5 tokens, 4 were asked for",
    ),
    "no output": (
        at_once(ROLE, delta("length", content=""), *GOOD[-2:]),
        "the answer has no output",
    ),
    "no DONE": (at_once(*GOOD[:-1]), "the stream was cut off before [DONE]"),
    "not JSON": (
        at_once(ROLE, event("oops"), DONE),
        "the event 'oops': not JSON: Expecting value: line 1 column 1 (char 0); it begins with 'o'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILED)
def test_an_answer_that_is_none_says_why_and_has_no_latency(server: str, name: str) -> None:
    score, said = FAILED[name]
    record, _ = ask(server, score, deadlines=SHORT if "stalled" in said else LONG)
    assert record.error == said
    assert timing(record) is None
    result = summary(Run((record,)), Objective())
    assert (result.completed, result.failed) == (0, 1)
    assert result.ttft.p50_ms is None


LATE = [[0.0, HEAD + "".join(map(framed, GOOD[:-2]))],
        [0.4, framed(delta("length")) + framed(usage(4)) + framed(DONE) + LAST]]  # fmt: skip


def test_empty_end_that_comes_late_is_in_no_latency(server: str) -> None:
    record, play = ask(server, LATE)
    found = timing(record)
    assert record.error is None
    assert found is not None
    assert play["sent"][1] - record.sent >= 0.4
    assert [chunk.output for chunk in record.chunks[-2:]] == [True, False]
    assert found.e2el == record.chunks[-2].at - record.sent
    assert tokens_per_chunk(Run((record,))) == 1.0


def test_a_stream_that_trickles_on_ends_at_the_total_deadline(server: str) -> None:
    trickle = [[number * 0.05, framed(WORDS[0])] for number in range(1, 200)]
    limits = HttpDeadlines(connect=20, idle=10, total=0.4)
    record, _ = ask(server, [[0.0, HEAD + framed(ROLE)], *trickle], deadlines=limits)
    assert record.error == "stalled: over 0.4 s"


def test_nothing_is_seen_before_it_was_sent(server: str) -> None:
    record, play = ask(server, even(0.02, 0.01, 4))
    seen = [chunk.at for chunk in record.chunks]
    assert record.connected is not None
    assert record.sent <= record.connected <= play["taken"]
    assert all(at >= sent for at, sent in zip(seen, play["sent"], strict=False))


def test_a_role_that_comes_long_before_the_first_token_is_not_the_first_token(server: str) -> None:
    record, play = ask(server, even(0.4, 0.01, 4))
    found = timing(record)
    assert found is not None
    assert not record.chunks[0].output
    assert found.ttft >= play["sent"][1] - record.sent >= 0.4


def test_a_slow_first_byte_is_ttft_and_nothing_else(server: str) -> None:
    score = [[at + 0.5, what] for at, what in even(0.0, 0.0, 4)]
    record, _ = ask(server, score)
    found = timing(record)
    assert record.error is None
    assert found is not None
    assert found.ttft >= 0.5
    assert sum(found.gaps) == pytest.approx(found.e2el - found.ttft)


def test_a_stall_in_the_middle_is_one_long_gap(server: str) -> None:
    record, play = ask(server, stream([0.0, 0.01, 0.02, 1.02, 1.03, 1.04]), tokens=6)
    found = timing(record)
    assert found is not None
    assert found.gaps.index(max(found.gaps)) == 2
    made = [after - before for before, after in pairwise(play["sent"][1:7])]
    assert made.index(max(made)) == 2
    assert found.tpot == pytest.approx((found.e2el - found.ttft) / 5)
    assert not Objective(tpot_ms=100).met_by(found)


def test_events_in_one_piece_have_no_gap_and_tpot_tells(server: str) -> None:
    score = [[0.0, HEAD], [0.05, framed("".join(GOOD)) + LAST], [0.05, "end"]]
    record, _ = ask(server, score)
    found = timing(record)
    assert found is not None
    assert found.gaps == (0.0, 0.0, 0.0)
    assert summary(Run((record,)), Objective()).coalesced_share == 1.0
