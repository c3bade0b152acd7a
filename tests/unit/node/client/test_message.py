"""Where an answer ends, and what it says when it is compressed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.client.http import Exchange
from b200kit.node.client.message import (
    MAX_BODY,
    Dechunker,
    Ending,
    HttpError,
    SseSplitter,
    parse_head,
)
from tests.bench import wire
from tests.bench.sent import METRICS, Sent, median, sent
from tests.lab.standin.knobs import Knobs
from tests.messages import raises_message
from tests.subtests import in_subtests
from tests.unit.node.client.scores import REPOSITORY
from tests.unit.node.client.server_thread import MODEL, running

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{}\r\n"
TRAILED = CHUNKED.replace(b"{}", b"") + b"5\r\nhello\r\n0\r\nx-took: 7\r\nx-more: 8\r\n\r\n"
TEXT = b"data: one\n\ndata: two\n\n"


@in_subtests("cut", range(1, len(TRAILED)))
def test_end_is_reached_with_the_last_byte_wherever_it_is_cut(cut: int) -> None:
    ending = Ending()
    ending.feed(TRAILED[:cut])
    assert not ending.reached
    ending.feed(TRAILED[cut:])
    assert ending.reached


EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@in_subtests("cut", range(1, len(CONTINUE + EARLY + TRAILED), 7))
def test_heads_before_that_of_the_answer_are_passed_over(cut: int) -> None:
    whole, ending = CONTINUE + EARLY + TRAILED, Ending()
    ending.feed(whole[:cut])
    assert not ending.reached
    ending.feed(whole[cut:])
    assert ending.reached
    exchange = Exchange(0.0, [(1.0, whole[:cut]), (2.0, whole[cut:])])
    assert (exchange.status, exchange.body()) == (200, b"hello")


def test_marker_of_an_end_inside_a_chunk_is_none() -> None:
    ending = Ending()
    inside = b"x\r\n0\r\n\r\n"
    ending.feed(CHUNKED.replace(b"{}", b"") + b"%x\r\n%s\r\n" % (len(inside), inside))
    assert not ending.reached


def answer(coding: bytes, packed: bytes) -> Exchange:
    """A compressed answer that comes in two pieces."""
    head = CHUNKED.replace(b"{}", b"Content-Encoding: " + coding + b"\r\n")
    half = len(packed) // 2
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (packed[:half], packed[half:])]
    return Exchange(0.0, [(1.0, head + chunks[0]), (2.0, chunks[1] + b"0\r\n\r\n")])


@pytest.mark.parametrize(
    ("coding", "packed"),
    [(b"gzip", gzip.compress(TEXT)), (b"deflate", zlib.compress(TEXT))],
    # Not by its bytes: gzip writes the time, and each process of a run would name it otherwise.
    ids=["gzip", "deflate"],
)
def test_compressed_answer_is_read(coding: bytes, packed: bytes) -> None:
    whole = answer(coding, packed)
    assert whole.body() == TEXT
    assert [event for _, event in whole.events()] == ["one", "two"]


def test_compressed_answer_that_was_cut_off_is_not_whole() -> None:
    with pytest.raises(HttpError, match="cut off"):
        answer(b"gzip", gzip.compress(TEXT)[:-6]).body()


def test_answer_that_unpacks_to_more_than_is_read_is_refused() -> None:
    packer = zlib.compressobj(9)
    zeros = b"".join(packer.compress(bytes(1 << 20)) for _ in range((MAX_BODY >> 20) + 1))
    bomb = zeros + packer.flush()
    assert len(bomb) < 1 << 20
    with pytest.raises(HttpError, match="larger than 64 MiB"):
        answer(b"deflate", bomb).body()


def test_head_without_an_end_is_given_up() -> None:
    ending = Ending()
    ending.feed(b"x" * 60_000)
    with pytest.raises(HttpError, match="no end of a head"):
        ending.feed(b"x" * 60_000)


@in_subtests("length", [b"\xb2", b"-5", b"+5", b"0x5", b"1_0", b"5, 5"])
def test_answer_of_a_length_that_is_none_is_refused(length: bytes) -> None:
    with pytest.raises(HttpError, match="long"):
        Ending().feed(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % length)


def test_answer_in_a_coding_that_nobody_asked_for_is_named() -> None:
    with pytest.raises(HttpError, match=r"compressed \(br\)"):
        answer(b"br", b"1234").body()


def test_answer_that_only_says_that_it_is_compressed_is_named() -> None:
    with pytest.raises(HttpError, match="coding is broken"):
        answer(b"gzip", TEXT).body()


CODED = b"5\r\nhello\r\nB;x=1\r\n, two words\r\n0\r\n\r\n"
EVENTS = b': ping\n\ndata: {"a": 1}\n\ndata: one\ndata: two\n\nevent: x\r\ndata:three\r\n\r\n'


@in_subtests("cut", range(len(CODED) + 1))
def test_chunked_coding_may_be_cut_anywhere(cut: int) -> None:
    decoder = Dechunker()
    assert decoder.feed(CODED[:cut]) + decoder.feed(CODED[cut:]) == b"hello, two words"
    assert decoder.finished


def test_chunked_coding_that_stops_early_is_not_finished() -> None:
    decoder = Dechunker()
    decoder.feed(CODED[:-5])
    assert not decoder.finished


@in_subtests("size", [b"xyz", b"-5", b"+5", b"0x5", b"1_0", "\u0665".encode(), b"", b"f" * 40])
def test_a_broken_chunk_size_is_refused(size: bytes) -> None:
    with pytest.raises(ValueError, match="chunk"):
        Dechunker().feed(size + b"\r\nabc")


@in_subtests("cut", range(len(EVENTS) + 1))
def test_events_may_be_cut_anywhere(cut: int) -> None:
    splitter = SseSplitter()
    found = splitter.feed(EVENTS[:cut]) + splitter.feed(EVENTS[cut:])
    assert found == ['{"a": 1}', "one\ntwo", "three"]


def test_a_line_separator_inside_json_does_not_end_the_event() -> None:
    assert SseSplitter().feed('data: "a\u2028b"\n\n'.encode()) == ['"a\u2028b"']


def test_an_event_arrives_when_its_last_byte_does() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [
        (1.0, head[:20]),
        (2.0, head[20:] + b"8\r\ndata: a\n\r\n"),
        (3.0, b"9\r\n\ndata: b\n\r\n"),
        (4.0, b"1\r\n\n\r\n0\r\n\r\n"),
    ]
    exchange = Exchange(sent=0.5, pieces=pieces)
    assert exchange.events() == [(3.0, "a"), (4.0, "b")]
    assert exchange.segments()[1] is True


def test_a_body_shorter_than_announced_is_cut_off() -> None:
    exchange = Exchange(0.0, [(1.0, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")])
    with pytest.raises(HttpError, match="cut off"):
        exchange.body()


@in_subtests("status", [b"20\xb2", b"-1", b"+200", b"2_0", b""])
def test_status_that_is_no_number_is_refused(status: bytes) -> None:
    with pytest.raises(HttpError):
        parse_head(b"HTTP/1.1 " + status + b" OK\r\n\r\n")


@pytest.mark.parametrize("data", [b"", b"220 mail ESMTP\r\n\r\n"])
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with raises_message(HttpError):
        parse_head(data)


B200 = str(Path(sys.executable).with_name("b200"))
REQUESTS, TOKENS = 20, 8
# Of such times no client's own error is a tenth, on a busy machine either.
SLOW = Knobs(0.0, ttft=0.04, itl=0.04, first_extra=0.0)


@dataclass(frozen=True)
class Seen:
    """What the client reported, and what passed the proxy."""

    document: dict[str, Any]
    ours: list[Sent]
    passed: list[Sent]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One smoke of a stand-in server, through the proxy."""
    folder = tmp_path_factory.mktemp("wire")
    notes, result, pipe = folder / "notes.json", folder / "smoke.json", subprocess.PIPE
    with running(SLOW) as url:
        server = url.rpartition(":")[2]
        proxying = [sys.executable, "-m", "tests.bench.wire", server, str(notes)]
        with subprocess.Popen(
            proxying, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True
        ) as proxy:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            port = proxy.stdout.readline().split()[0]
            smoking = [B200, "smoke", f"http://127.0.0.1:{port}"]
            asked = [
                "--requests",
                str(REQUESTS),
                "--rate",
                "20",
                "--output-tokens",
                str(TOKENS),
                "--share",
                "0.5",
            ]
            done = subprocess.run(
                [*smoking, "--model", MODEL, "--output", str(result), *asked],
                cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            proxy.stdin.close()
            proxy.wait(300)
    assert result.exists(), done.stderr
    document = json.loads(result.read_text())["bench"]
    ours = sent(document)
    passed = wire.requests(json.loads(notes.read_text())[0])
    return Seen(document, ours, passed[-len(ours) :])


def test_every_request_is_found_on_the_wire_with_its_tokens(seen: Seen) -> None:
    assert seen.document["failed"] == 0
    assert len(seen.ours) == len(seen.passed) == REQUESTS
    assert {one.tokens for one in (*seen.ours, *seen.passed)} == {TOKENS}
    assert seen.document["total_output_tokens"] == TOKENS * REQUESTS


def test_each_passed_after_it_was_sent_and_before_its_first_token_was_seen(seen: Seen) -> None:
    for one, passed in zip(seen.ours, seen.passed, strict=True):
        assert one.at <= passed.at < one.at + one.ttft


def test_nothing_is_seen_before_it_passed(seen: Seen) -> None:
    for one, passed in zip(seen.ours, seen.passed, strict=True):
        # What the proxy notes it has just sent on.
        assert len(one.gaps) == len(passed.gaps) == TOKENS - 1
        assert one.at + one.e2el > passed.at


@pytest.mark.parametrize("metric", METRICS)
def test_medians_are_those_of_the_requests_by_vllms_definitions(seen: Seen, metric: str) -> None:
    stated = seen.document[f"median_{metric}_ms"]
    assert stated == pytest.approx(median(seen.ours, metric), abs=0.01)
