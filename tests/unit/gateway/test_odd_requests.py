"""Bodies beyond the limit, of unknown length, or whose length can be read in two ways."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from b200kit.inventory.keys.gateway import Gateway
from tests.subtests import in_subtests
from tests.unit.gateway.proxy import Proxy, mock, running

pytestmark = pytest.mark.process

DEADLINE_S = 120
MIB = 1 << 20
POST = "POST /v1/completions"
GET = "GET /v1/models"
CHUNKED = "Transfer-Encoding: chunked"
ENDED = "0\r\n\r\n"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A gateway that takes a mebibyte, before one server."""
    folder = tmp_path_factory.mktemp("odd")
    asked = Gateway(max_body_mib=1, request_timeout_s=2)
    with mock("1", "1", "2") as port, running(folder, [port], gateway=asked) as found:
        yield found


def connected(proxy: Proxy, source: str = "127.0.0.1") -> socket.socket:
    """A connection."""
    address = ("127.0.0.1", urlsplit(proxy.url).port or 0)
    return socket.create_connection(address, DEADLINE_S, (source, 0))


@in_subtests(
    ("line", "fields", "body", "status"),
    [
        (POST, "Content-Length: 1000", "x" * 1000, 200),
        (POST, f"Content-Length: {MIB}", "x" * MIB, 200),
        (GET, "", "", 200),
        (GET, "Content-Length: 0", "", 200),
        # Too large; it need not even be sent.
        (POST, f"Content-Length: {MIB + 1}", "", 413),
        (GET, f"Content-Length: {MIB + 1}", "", 413),
        (POST, f"Content-Length: {2**64 + 2}", "{}", 413),
        (GET, "Content-Length: 2", "{}", 413),
        # Of unknown length.
        (POST, "", "", 411),
        (POST, CHUNKED, f"2\r\n{{}}\r\n{ENDED}", 411),
        (GET, CHUNKED, f"2\r\n{{}}\r\n{ENDED}", 411),
        # Other methods, whatever they bring.
        ("PUT /v1/completions", CHUNKED, f"2\r\n{{}}\r\n{ENDED}", 405),
        ("PUT /v1/completions", "Content-Length: 2", "{}", 405),
        ("DELETE /v1/completions", CHUNKED, ENDED, 405),
        ("OPTIONS /v1/completions", "", "", 405),
        ("TRACE /v1/completions", "", "", 405),
        ("ODD /v1/completions", "", "", 405),
        # Two lengths, or one that is none.
        (POST, f"Content-Length: 5\r\n{CHUNKED}", f"{ENDED}GET /metrics HTTP/1.1\r\n\r\n", 411),
        (POST, f"{CHUNKED}\r\nContent-Length: 5", ENDED, 411),
        (POST, "Content-Length: 2\r\nContent-Length: 3", "{}", 400),
        (POST, "Content-Length: 2, 3", "{}", 400),
        (POST, "Content-Length: +2", "{}", 400),
        (POST, "Content-Length: 0x2", "{}", 400),
        (POST, "Content-Length: ", "{}", 400),
        (POST, "Content-Length: 2\r\nTransfer-Encoding: xchunked", "{}", 400),
        (POST, "Content-Length: 2\r\nTransfer-Encoding:\r\n chunked", "{}", 400),
        (POST, "Content-Length: 2\r\nTransfer-Encoding : chunked", "{}", 400),
        (POST, "X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2", "{}", 400),
    ],
)  # fmt: skip
def test_length_of_a_body_is_known_and_within_the_limit(
    proxy: Proxy, line: str, fields: str, body: str, status: int
) -> None:
    head = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer node-key\r\n"
    head += f"{fields}\r\n\r\n" if fields else "\r\n"
    with connected(proxy) as client:
        client.sendall((head + body).encode())
        answer = client.recv(1 << 16)
    assert int(answer.split()[1]) == status


def test_protocol_is_not_changed_on_the_way(proxy: Proxy) -> None:
    ask = f"{GET} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer node-key\r\nConnection: Upgrade\r\n"
    with connected(proxy) as client:
        client.sendall(f"{ask}Upgrade: h2c\r\n\r\n".encode())
        answer = client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"h2c" not in answer


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One of HTTP/2's (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header field that is not indexed (RFC 7541, 6.2.2)."""
    return b"".join([b"\0", *(bytes([len(text)]) + text.encode() for text in (name, value))])


@in_subtests(
    ("method", "length", "status"),
    [("GET", None, b"413"), ("POST", None, b"411"), ("PUT", None, b"405"), ("GET", "4", b"413")],
)
def test_length_is_known_over_http2_too(
    proxy: Proxy, method: str, length: str | None, status: bytes
) -> None:
    """There a body needs no length and no transfer encoding."""
    fields = {
        ":method": method, ":scheme": "http", ":authority": "x",
        ":path": "/v1/models" if method == "GET" else "/v1/completions",
        "authorization": "Bearer node-key", **({"content-length": length} if length else {}),
    }  # fmt: skip
    head = b"".join(literal(name, value) for name, value in fields.items())
    sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0, b""), frame(1, 4, 1, head)]
    with connected(proxy) as client:
        client.sendall(b"".join([*sent, frame(0, 1, 1, b"body")]))
        got = b""
        while b"application/json" not in got and b"HTTP/1.1" not in got:
            piece = client.recv(1 << 16)
            assert piece, got
            got += piece
    # ":status" of the static table, then three digits as they are.
    assert b"H\x03" + status in got
