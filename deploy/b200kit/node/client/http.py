"""A raw HTTP/1.1 exchange that stamps every piece of data as it arrives. Standard library only.

While requests are under way the only work done is `(time, bytes)` into a list: decoding, SSE and
JSON are left for later (`Exchange.events`), so that reading one stream never delays the time stamp
of another. One connection a request, closed by the server (`Connection: close`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from b200kit.node.client.message import (
    MAX_BODY,
    Body,
    Ending,
    HttpError,
    SseSplitter,
    parse_head,
    too_large,
)
from b200kit.node.lib.documents import Object, decode

Address = tuple[Any, ...]
"""What `getaddrinfo` returns for one address."""


async def connect(host: str, port: int, seconds: float) -> socket.socket:
    """A non-blocking socket, connected to the first of the host's addresses that takes it.

    It costs no turn of the event loop where the peer is on this machine: what a client takes to
    connect is in its TTFT, and a busy loop's turn is longer than the handshake on a loopback, while
    asyncio's own connection waits for three or four of them. `seconds` is for the name and for
    each address. Raises OSError or asyncio.TimeoutError.
    """
    failed = OSError(f"{host} has no address")
    for address in await _addresses(host, port, seconds):
        try:
            return await _connected(address, seconds)
        except OSError as error:
            failed = error
    raise failed


async def _addresses(host: str, port: int, seconds: float) -> Sequence[Address]:
    """The addresses of a host; those that are written as numbers are looked up nowhere."""
    written = _written(host, port)
    if written:
        return written
    look_up = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await asyncio.wait_for(look_up, seconds)


@functools.lru_cache(maxsize=64)
def _written(host: str, port: int) -> Sequence[Address]:
    """The address that a host's name is itself; () for a name."""
    try:
        numbers = socket.AI_NUMERICHOST
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numbers)
    except socket.gaierror:
        return ()


async def _connected(address: Address, seconds: float) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The first call only begins; the second one says "done" when the peer is on this machine.
        if sock.connect_ex(where) and sock.connect_ex(where):
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(sock, where), seconds)
    except BaseException:
        sock.close()
        raise
    return sock


@dataclass(frozen=True)
class HttpDeadlines:
    """Seconds: to connect, between two pieces of data (the first included), and in total."""

    connect: float = 5.0
    idle: float = 60.0
    total: float = 300.0


@dataclass
class Exchange:
    """One request and all that came back. Times are `time.perf_counter()` seconds.

    connected: when the connection (over https: with its keys) was ready for the request.
    fault: why it ended early (one line), None when the connection ended in the ordinary way.
    """

    sent: float
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    ended: float | None = None
    fault: str | None = None
    connected: float | None = None
    _head: tuple[int, dict[str, str], int] | None = None

    @property
    def head(self) -> tuple[int, dict[str, str], int]:
        """Status, header fields (lower case names) and the length of the head in bytes.

        Raises HttpError when no complete head arrived or it is not HTTP.
        """
        if self._head is None:
            self._head = parse_head(b"".join(data for _, data in self.pieces))
        return self._head

    @property
    def status(self) -> int:
        """The HTTP status code."""
        return self.head[0]

    @property
    def media_type(self) -> str:
        """The form of its body, in lower case; empty where it says none."""
        return self.head[1].get("content-type", "").partition(";")[0].strip().lower()

    @property
    def code(self) -> int | None:
        """The same; None where no answer came."""
        try:
            return self.status
        except HttpError:
            return None

    def segments(self) -> tuple[list[tuple[float, bytes]], bool]:
        """The body as (arrival, bytes), its codings undone, and whether it is complete."""
        _, fields, skip = self.head
        decoder = Body(fields)
        body: list[tuple[float, bytes]] = []
        for at, raw in self.pieces:
            data, skip = raw[skip:], max(0, skip - len(raw))
            if data:
                body.append((at, decoder.feed(data)))
        return body, decoder.is_whole

    def body(self) -> bytes:
        """The whole body. Raises HttpError when it was cut off."""
        pieces, complete = self.segments()
        if not complete:
            raise HttpError(self.fault or "the answer was cut off")
        return b"".join(data for _, data in pieces)

    def document(self) -> Object:
        """The JSON object that is its body. Raises HttpError, and ValueError for another one."""
        return decode(Object, self.body(), MAX_BODY, "the answer")

    def events(self) -> list[tuple[float, str]]:
        """The server-sent events' data, each with the arrival of the piece that completed it."""
        splitter = SseSplitter()
        return [(at, event) for at, data in self.segments()[0] for event in splitter.feed(data)]


class _Collector(asyncio.Protocol):
    """Stamps and stores what arrives; resolves `done` when the answer has ended."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last = time.perf_counter()
        self._size = 0
        self._ending = Ending()

    def data_received(self, data: bytes) -> None:
        """Stamp one piece; notice the end for servers that do not close."""
        self.last = time.perf_counter()
        self.exchange.pieces.append((self.last, data))
        self._size += len(data)
        if self._size > MAX_BODY:
            self.finish(too_large())
            return
        try:
            self._ending.feed(data)
        except HttpError as error:
            self.finish(str(error))
        if self._ending.reached:
            self.finish(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer closed (or reset) the connection."""
        self.finish(f"connection lost: {exc}" if exc else None)

    def finish(self, fault: str | None) -> None:
        """Settle the exchange, once: what comes after the first reason does not count."""
        if not self.done.done():
            self.exchange.ended = time.perf_counter()
            self.exchange.fault = fault
            self.done.set_result(None)


async def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    body: object = None,
    deadlines: HttpDeadlines | None = None,
    trust: str | None = None,
    *,
    named: bool = False,
) -> Exchange:
    """Send one request and collect the answer; never raises for what the network does.

    `body` is sent as JSON. `trust` is a file with the only certificates to accept over https, or,
    `named`, with the only authorities, and then the certificate must be for the host. A connection
    that fails or a deadline that passes is the exchange's `fault`; `sent` is taken before the
    connection is made, and after what only our own machine does for it.
    """
    limits = deadlines or HttpDeadlines()
    parts = urlsplit(url)
    request = _render(method, url, headers or {}, body)
    secure = _context(trust, _changed(trust), named) if parts.scheme == "https" else None
    result = Exchange(sent=time.perf_counter())
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    try:
        sock = await connect(host, port, limits.connect)
        transport, collector = await _begin(sock, request, result, limits, secure, host)
    except (OSError, asyncio.TimeoutError) as error:
        result.fault = f"cannot connect to {parts.netloc}: {_cause(error, limits.connect)}"
        result.ended = time.perf_counter()
        return result
    try:
        await _until_done(collector, limits)
    finally:
        transport.abort()
    return result


async def _begin(
    sock: socket.socket,
    request: bytes,
    result: Exchange,
    limits: HttpDeadlines,
    secure: ssl.SSLContext | None,
    host: str,
) -> tuple[asyncio.Transport, _Collector]:
    """Send the request over a new connection, and listen. Raises OSError when TLS fails."""
    loop = asyncio.get_running_loop()
    left = request
    if secure is None:
        result.connected = time.perf_counter()
        # It goes out before the loop turns; what it may be too long for, or a peer that has gone
        # already, is the transport's business.
        with contextlib.suppress(OSError):
            left = request[sock.send(request) :]
    transport, collector = await loop.create_connection(
        lambda: _Collector(result),
        sock=sock,
        ssl=secure,
        server_hostname=host if secure else None,
        ssl_handshake_timeout=limits.connect if secure else None,
    )
    result.connected = result.connected or time.perf_counter()
    if left:
        transport.write(left)
    return transport, collector


def _changed(trust: str | None) -> int:
    """When the file was written: a renewed certificate is another one."""
    return os.stat(trust).st_mtime_ns if trust else 0


@functools.lru_cache(maxsize=4)
def _context(trust: str | None, _changed: int, named: bool) -> ssl.SSLContext:
    """What is accepted over TLS; OSError when the file cannot be read.

    Kept: reading all authorities takes 10 to 30 ms, in which no other stream would be stamped.
    """
    context = ssl.create_default_context(cafile=trust)
    if trust and not named:
        # That very certificate, whatever name it is for: a node asks its own gateway by address.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _until_done(collector: _Collector, limits: HttpDeadlines) -> None:
    """Wait for the end, or give up when a deadline passes."""
    while not collector.done.done():
        now = time.perf_counter()
        idle = collector.last + limits.idle - now
        total = collector.exchange.sent + limits.total - now
        if min(idle, total) <= 0:
            which = f"no data for {limits.idle:g} s" if idle <= 0 else f"over {limits.total:g} s"
            collector.finish(f"stalled: {which}")
            return
        await asyncio.wait({collector.done}, timeout=min(idle, total))


def _render(method: str, url: str, headers: Mapping[str, str], body: object) -> bytes:
    """The request's bytes."""
    parts = urlsplit(url)
    payload = b"" if body is None else json.dumps(body).encode()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"Host": parts.netloc, "Connection": "close", "Accept": "*/*"}
    fields |= {"Accept-Encoding": "identity", **headers}
    if body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(payload))}
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + payload


def _cause(error: Exception, seconds: float) -> str:
    # In Python 3.10 they are two classes.
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"no connection within {seconds:g} s"
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and error.errno:
        # asyncio's own words are "Connect call failed" for whatever the kernel said.
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
