"""A refusal is given when the body is there: over HTTP/2 a client may see no earlier one."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from b200kit.inventory.keys.gateway import Gateway
from tests.subtests import in_subtests
from tests.unit.gateway.proxy import Proxy, mock, running
from tests.unit.gateway.test_odd_requests import connected, frame, literal

pytestmark = pytest.mark.process

HEADERS, DATA, RST_STREAM, ENDS = 1, 0, 3, 1
# The node's own address has no limit.
OTHER = "127.0.0.2"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A gateway before one server."""
    folder = tmp_path_factory.mktemp("refused")
    with mock("1", "1", "2") as port, running(folder, [port], gateway=Gateway()) as found:
        yield found


@contextmanager
def asked(proxy: Proxy, method: str, path: str, key: str) -> Iterator[socket.socket]:
    """A connection with the head of a request on it; its body is still to come."""
    fields = {
        ":method": method, ":scheme": "http", ":authority": "x", ":path": path,
        "authorization": f"Bearer {key}",
    }  # fmt: skip
    head = b"".join(literal(name, value) for name, value in fields.items())
    preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0, b""), frame(HEADERS, 4, 1, head)]
    with connected(proxy) as client:
        client.sendall(b"".join(preface))
        yield client


def of_stream(client: socket.socket) -> Iterator[tuple[int, bytes]]:
    """The frames of the request's stream, kind and payload, until it has ended."""
    with client.makefile("rb") as stream:
        while head := stream.read(9):
            kind, flags = head[3], head[4]
            payload = stream.read(int.from_bytes(head[:3]))
            if struct.unpack(">I", head[5:])[0] != 1:
                continue
            yield kind, payload
            if kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & ENDS):
                return


@in_subtests(
    ("method", "path", "key", "status"),
    [
        ("POST", "/metrics", "node-key", b"403"),
        ("POST", "/v1/completions", "wrong", b"401"),
        ("PUT", "/v1/completions", "node-key", b"405"),
        ("POST", "/v1/completions", "node-key", b"411"),
    ],
)
def test_refusal_comes_after_the_body_and_nothing_is_cancelled(
    proxy: Proxy, method: str, path: str, key: str, status: bytes
) -> None:
    with asked(proxy, method, path, key) as client:
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            list(of_stream(client))
    with asked(proxy, method, path, key) as client:
        client.sendall(frame(DATA, ENDS, 1, b"body"))
        frames = list(of_stream(client))
    assert RST_STREAM not in [kind for kind, _ in frames]
    assert b"H\x03" + status in next(payload for kind, payload in frames if kind == HEADERS)


def test_source_that_asks_too_often_without_a_key_holds_no_buffer(proxy: Proxy) -> None:
    """Many at once, none of which sends its body: those beyond the first hundred are answered."""
    head = b"".join(
        literal(*field)
        for field in [(":method", "POST"), (":scheme", "http"), (":authority", "x"),
                      (":path", "/v1/completions"), ("authorization", "Bearer wrong")]
    )  # fmt: skip
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    with connected(proxy, OTHER) as first, connected(proxy, OTHER) as second:
        for client in (first, second):
            streams = (frame(HEADERS, 4, 2 * number + 1, head) for number in range(100))
            client.sendall(preface + b"".join(streams))
        second.settimeout(4)  # less than strangers wait
        got = b""
        while b"401" not in got:
            got += second.recv(1 << 16)
