"""How the client connects: to numbers and names, to who refuses, is slow, or never answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from b200kit.node.client.http import Exchange, HttpDeadlines, _Collector, connect, exchange
from tests.messages import assert_message

SOON = HttpDeadlines(connect=0.3, idle=5, total=10)
LATE = HttpDeadlines(connect=300, idle=300, total=300)


def asked(url: str, deadlines: HttpDeadlines = LATE) -> Exchange:
    """One exchange."""
    return asyncio.run(exchange("POST", url, None, None, deadlines))


@contextlib.contextmanager
def full() -> Iterator[int]:
    """The port of a listener that takes no more connections: a handshake with it never ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as x:
        port = listener.getsockname()[1]
        for _ in range(3):
            waiting = x.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """The port of a listener that completes handshakes and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def named(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """A resolver that knows these addresses for any name."""

    def answer(host: str, port: int, *_: Any, flags: int = 0, **__: Any) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*stream, (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)


def test_the_first_address_that_takes_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "127.0.0.2", "127.0.0.1")
    with silent() as port, asyncio.run(connect("first.invalid", port, 5)) as made:
        assert made.getpeername() == ("127.0.0.1", port)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert not made.getblocking()


def test_the_last_refusal_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "127.0.0.2", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = asked(f"http://last.invalid:{port}/")
    assert_message(found.fault, PORT=port)
    assert (found.connected, found.pieces) == (None, [])


def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    found = asked("http://none.invalid:1/")
    assert_message(found.fault)


def test_who_does_not_answer_costs_the_deadline_and_no_more() -> None:
    with full() as port:
        found = asked(f"http://127.0.0.1:{port}/", SOON)
    assert_message(found.fault, PORT=port)


def test_tls_that_is_never_spoken_costs_the_deadline() -> None:
    with silent() as port:
        found = asked(f"https://127.0.0.1:{port}/", SOON)
    assert_message(found.fault, PORT=port)
    assert found.connected is None


def test_a_request_larger_than_the_socket_takes_at_once_arrives_whole() -> None:
    async def counted() -> Exchange:
        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            # Nothing is read for a while: the rest of the request has to wait.
            await asyncio.sleep(0.1)
            body = str(len(await reader.readexactly(length))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(count, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await exchange("POST", f"http://127.0.0.1:{port}/", None, "x" * (16 << 20), LATE)

    found = asyncio.run(counted())
    assert found.fault is None
    assert int(found.body()) == (16 << 20) + 2
    assert found.sent <= (found.connected or 0.0) <= found.pieces[0][0]


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
