"""The wire decoders, cut at every byte."""

from __future__ import annotations

import pytest

from b200kit.node.client.http import Exchange
from b200kit.node.client.message import HttpError, parse_head
from b200kit.node.client.sse import Dechunker, SseSplitter
from tests.messages import raises_message
from tests.subtests import in_subtests

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
