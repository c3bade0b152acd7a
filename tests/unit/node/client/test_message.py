"""Where an answer ends, and what it says when it is compressed."""

from __future__ import annotations

import gzip
import zlib

import pytest

from b200kit.node.client.http import Exchange
from b200kit.node.client.message import MAX_BODY, Ending, HttpError
from tests.subtests import in_subtests

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
