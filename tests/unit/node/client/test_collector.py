"""When an answer has ended: decided from the bytes that came, at each piece of them."""

from __future__ import annotations

import asyncio

import pytest

from b200kit.node.client.http import Exchange, _Collector

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


def ended_after(*pieces: bytes) -> list[bool]:
    """Whether the answer counts as ended after each of its pieces."""

    async def feed() -> list[bool]:
        collector = _Collector(Exchange(0.0, []))
        found = []
        for piece in pieces:
            collector.data_received(piece)
            found.append(collector.done.done())
        return found

    return asyncio.run(feed())


@pytest.mark.parametrize(
    ("pieces", "ended"),
    [
        ((HEAD + b"0123456789",), [True]),
        ((HEAD + b"01234", b"56789"), [False, True]),
        ((HEAD[:9], HEAD[9:], b"0123456789"), [False, False, True]),
        ((b"HTTP/1.1 200 OK\r\n\r\n", b"until the peer closes"), [False, False]),
    ],
)
def test_an_answer_ends_with_the_last_byte_that_was_announced(
    pieces: tuple[bytes, ...], ended: list[bool]
) -> None:
    assert ended_after(*pieces) == ended
