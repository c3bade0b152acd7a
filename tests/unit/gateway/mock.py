"""`python -m tests.unit.gateway.mock [TTFT_MS ITL_MS CHUNKS NAME KEY]`: SSE with known times.

Prints its port. It names itself in the header x-served-by, counts what it was sent in /count, and
repeats the request's headers in /v1/models. A request whose body is "crash" ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

TTFT_MS, ITL_MS, CHUNKS = 20.0, 10.0, 20


class Mock:
    """One server."""

    def __init__(
        self, ttft_ms: float, itl_ms: float, chunks: int, name: str, key: str = ""
    ) -> None:
        self.key = key
        self.ttft, self.itl, self.chunks, self.name = ttft_ms / 1000, itl_ms / 1000, chunks, name
        self.served = 0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after another."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = [line.partition(":") for line in head.split("\r\n")[1:]]
                fields = {name.lower(): value.strip() for name, _, value in lines}
                body = await reader.readexactly(int(fields.get("content-length") or 0))
                if body == b"crash":
                    os._exit(1)
                await self.answer(head.split()[1], fields, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, path: str, fields: dict[str, str], writer: asyncio.StreamWriter) -> None:
        """One answer."""
        if self.key and path.startswith("/v1/") and not fields["authorization"].endswith(self.key):
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            return await writer.drain()
        if path == "/v1/chat/completions":
            self.served += 1
            return await self.stream(writer)
        said = {"/count": {"served": self.served}, "/v1/models": {"headers": fields}}.get(path, {})
        body = json.dumps(said).encode()
        head = f"HTTP/1.1 200 OK\r\nx-served-by: {self.name}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    async def stream(self, writer: asyncio.StreamWriter) -> None:
        """Chunks at their times."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-served-by: "
            + self.name.encode()
            + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for number in range(self.chunks):
            await asyncio.sleep(self.itl if number else self.ttft)
            last = number == self.chunks - 1
            choice = {"delta": {"content": "a"}, "finish_reason": "length" if last else None}
            usage = {"prompt_tokens": 3, "completion_tokens": self.chunks} if last else None
            document = {"choices": [choice], "usage": usage}
            self.event(writer, json.dumps(document))
        self.event(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def event(self, writer: asyncio.StreamWriter, text: str) -> None:
        """One event as one chunk."""
        data = f"data: {text}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def main() -> None:
    """Serve until killed."""
    given = sys.argv[1:]
    ttft, itl = (float(word) for word in (given[:2] or (TTFT_MS, ITL_MS)))
    chunks = int(given[2]) if len(given) > 2 else CHUNKS
    mock = Mock(ttft, itl, chunks, *(given[3:] or ["mock"]))
    server = await asyncio.start_server(mock.connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
