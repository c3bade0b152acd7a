"""HTTP/1.1 for the stand-in: read one request, write one answer (whole or chunked), close."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}
REASONS |= {405: "Method Not Allowed", 500: "Internal Server Error", 503: "Service Unavailable"}


@dataclass(frozen=True)
class Request:
    """A request; header names in lower case, path without the query."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection, None at its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target.partition("?")[0], headers, body)


class Reply:
    """Writes one answer."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def _head(self, status: int, kind: str, framing: str) -> bytes:
        lines = [f"HTTP/1.1 {status} {REASONS[status]}", "server: b200kit-stand-in"]
        lines += [f"content-type: {kind}", framing, "connection: close"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    async def whole(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """An answer of known length."""
        head = self._head(status, kind, f"content-length: {len(body)}")
        self._writer.write(head + body)
        await self._writer.drain()

    async def document(self, status: int, document: object) -> None:
        """A JSON answer."""
        await self.whole(status, json.dumps(document).encode())

    async def start_stream(self) -> None:
        """The head of an event stream."""
        framing = "transfer-encoding: chunked"
        self._writer.write(self._head(200, "text/event-stream; charset=utf-8", framing))
        await self._writer.drain()

    async def event(self, *documents: object) -> None:
        """One chunk holding an event for each document ("[DONE]" goes as it is)."""
        texts = [item if isinstance(item, str) else json.dumps(item) for item in documents]
        data = "".join(f"data: {text}\n\n" for text in texts).encode()
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def end_stream(self) -> None:
        """The last, empty chunk."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def garbage(self) -> None:
        """Something that is not HTTP."""
        self._writer.write(b"220 mail.invalid ESMTP\r\n\r\n")
        await self._writer.drain()
