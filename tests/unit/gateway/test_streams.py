"""The gateway passes each chunk on as it comes: the next is sent only when this one was seen."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.unit.gateway.proxy import running

CHUNKS = 5
DEADLINE_S = 20
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: close\r\n\r\n"
)
ASK = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer node-key\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)


def chunk(number: int) -> bytes:
    """One event as one chunk."""
    data = f"data: event {number}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Waiting:
    """A server that sends a chunk, and the next one only when the client has seen it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.seen = [threading.Event() for _ in range(CHUNKS)]
        self.begin = threading.Event()
        self.begin.set()
        self.kept_waiting: list[int] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Health checks are answered at once, a completion chunk by chunk."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            asked = connection.recv(1 << 16)
            if b"/chat/completions" not in asked:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                return
            self.begin.wait(DEADLINE_S)
            connection.sendall(HEAD)
            for number, seen in enumerate(self.seen):
                connection.sendall(chunk(number))
                if not seen.wait(DEADLINE_S):
                    self.kept_waiting.append(number)
            connection.sendall(b"0\r\n\r\n")


@contextlib.contextmanager
def waiting() -> Iterator[Waiting]:
    """Such a server, until the block ends."""
    server = Waiting()
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.listener.close()


def test_every_chunk_arrives_before_the_next_is_sent(tmp_path: Path) -> None:
    with waiting() as server, running(tmp_path, [server.port]) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S * 2) as client:
            client.sendall(ASK)
            got = b""
            for number in range(CHUNKS):
                while f"data: event {number}\n\n".encode() not in got:
                    piece = client.recv(1 << 16)
                    assert piece, got
                    got += piece
                assert f"event {number + 1}".encode() not in got
                server.seen[number].set()
            assert got.startswith(b"HTTP/1.1 200"), got
    assert server.kept_waiting == []
