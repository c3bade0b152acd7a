"""Routes, the API key, and an end that drains."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field

from . import ENGINE_VERSION
from .chat import ChatService, Refused
from .wire import Reply, Request, read_request

POSTED = {"/v1/chat/completions", "/v1/completions"}
PLAIN = {"/health", "/ping", "/version", "/metrics", "/load", "/v1/models"}


@dataclass
class Server:
    """One stand-in server; `serve` opens its port and `drain` ends it."""

    service: ChatService
    root: str
    keys: frozenset[str] = frozenset()
    _busy: set[asyncio.Task[None]] = field(default_factory=set)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _listener: asyncio.Server | None = None

    async def serve(self, host: str, port: int) -> int:
        """Open the port (0 = any free one); returns its number. Raises OSError if it is taken."""
        self._listener = await asyncio.start_server(self._connection, host, port, limit=1 << 20)
        number: int = self._listener.sockets[0].getsockname()[1]
        return number

    async def drain(self, seconds: float) -> None:
        """Let answers under way finish for at most `seconds`, then cut them off and close."""
        if self._busy and seconds > 0:
            await asyncio.wait(set(self._busy), timeout=seconds)
        if self._listener:
            self._listener.close()
        for _ in range(5):
            await asyncio.sleep(0)  # what was accepted already becomes a task of its own
        cut = set(self._busy)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        # A peer that does not read keeps a closing connection open.
        left = set(self._open)
        for writer in left:
            writer.transport.abort()
        await asyncio.gather(*(w.wait_closed() for w in left), return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._busy.add(task)
        self._open.add(writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                request = await read_request(reader)
                if request:
                    await self._answer(request, Reply(writer))
        except asyncio.CancelledError:
            pass  # cut off on purpose: the peer sees the connection close
        finally:
            writer.close()
            if task is not None:
                self._busy.discard(task)
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._open.discard(writer)

    async def _answer(self, request: Request, reply: Reply) -> None:
        path, method = request.path, request.method
        wanted = {"POST"} if path in POSTED else {"GET"} if path in PLAIN else set()
        if not wanted:
            await reply.document(404, {"detail": "Not Found"})
        elif method not in wanted:
            await reply.document(405, {"detail": "Method Not Allowed"})
        elif path.startswith("/v1/") and not self._allowed(request):
            await reply.document(401, {"error": "Unauthorized"})
        elif path in POSTED:
            await self._chat(request, reply)
        else:
            await self._plain(path, reply)

    def _allowed(self, request: Request) -> bool:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        return not self.keys or (kind.lower() == "bearer" and key in self.keys)

    async def _chat(self, request: Request, reply: Reply) -> None:
        try:
            await self.service.answer(self.service.accept(request), reply)
        except Refused as refused:
            await reply.document(refused.status, refused.document)

    async def _plain(self, path: str, reply: Reply) -> None:
        service = self.service
        if path == "/version":
            await reply.document(200, {"version": ENGINE_VERSION})
        elif path == "/metrics":
            text = service.engine.metrics.text().encode()
            await reply.whole(200, text, "text/plain; version=1.0.0; charset=utf-8")
        elif path == "/load":
            await reply.document(200, {"server_load": 0})
        elif path == "/v1/models":
            entry = {"id": service.model, "object": "model", "created": int(time.time())}
            entry |= {"owned_by": "vllm", "root": self.root, "max_model_len": service.max_model_len}
            await reply.document(200, {"object": "list", "data": [entry]})
        else:
            await reply.whole(200, b"")
