"""How long a silent client keeps a connection of a real HAProxy, and how many one source gets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.secrets import Secret
from tests.unit.gateway.proxy import KEYS, Proxy, mock, running
from tests.unit.gateway.test_refusals import certificate
from tests.unit.gateway.test_streams import ASK, waiting

pytestmark = pytest.mark.process

DEADLINE_S = 120
OK = b"HTTP/1.1 200"
GET = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer node-key\r\n\r\n"
AT_ONCE = Gateway(request_timeout_s=1, certificate=SecretRef(env="C"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with a certificate."""
    (tmp_path / "pem").write_bytes(certificate(tmp_path))
    return tmp_path


@contextlib.contextmanager
def gateway(folder: Path, port: int, asked: Gateway) -> Iterator[Proxy]:
    """A gateway before one server."""
    secrets = dict(KEYS)
    if asked.certificate:
        secrets["gateway.certificate"] = Secret((folder / "pem").read_bytes())
    with running(folder, [port], gateway=asked, secrets=secrets) as found:
        yield found


def connected(proxy: Proxy, source: str = "127.0.0.1") -> socket.socket:
    """A connection from an address of this machine."""
    address = ("127.0.0.1", urlsplit(proxy.url).port or 0)
    return socket.create_connection(address, DEADLINE_S, source_address=(source, 0))


def answer(connection: socket.socket, request: bytes) -> bytes:
    """What comes for a request; nothing where the gateway hung up."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(request)
        return connection.recv(1 << 16)
    return b""


def test_socket_that_never_ends_its_tls_handshake_is_closed(folder: Path) -> None:
    with mock() as port, gateway(folder, port, AT_ONCE) as proxy:
        with connected(proxy) as silent:
            assert silent.recv(1) == b""
        with connected(proxy) as begun:
            assert answer(begun, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") == b""


@pytest.mark.parametrize("sent", [b"", b"GET /v1/models HTTP/1.1\r\nHost: x\r\n", ASK[:-1]])
def test_request_that_does_not_end_is_closed(folder: Path, sent: bytes) -> None:
    asked = AT_ONCE.replace(certificate=None)
    with mock() as port, gateway(folder, port, asked) as proxy, connected(proxy) as slow:
        assert answer(slow, sent).startswith(b"HTTP/1.1 408 ")


def test_silent_answer_outlives_what_a_silent_client_may_take(folder: Path) -> None:
    """Before its first byte, and between two."""
    asked = AT_ONCE.replace(certificate=None)
    with waiting() as server, gateway(folder, server.port, asked) as proxy:
        server.begin.clear()
        with connected(proxy) as client:
            client.sendall(ASK)
            outlast_silent_clients(proxy)
            server.begin.set()
            got = client.recv(1 << 16)
            outlast_silent_clients(proxy)
            for seen in server.seen:
                seen.set()
            while not got.endswith(b"\r\n0\r\n\r\n"):
                piece = client.recv(1 << 16)
                assert piece, got
                got += piece
    assert got.startswith(b"HTTP/1.1 200")


def outlast_silent_clients(proxy: Proxy) -> None:
    """Two of them, one after the other: longer than either may take."""
    for _ in range(2):
        with connected(proxy) as silent:
            assert silent.recv(1 << 16).startswith(b"HTTP/1.1 408 ")


def test_one_source_does_not_take_every_connection(folder: Path) -> None:
    """A connection counts while it is open, whatever it is used for."""
    asked = Gateway(max_connections_per_source=3, unlimited_sources=("127.0.0.4/31",))
    with (
        mock() as port,
        gateway(folder, port, asked) as proxy,
        contextlib.ExitStack() as stack,
    ):
        for source in ("127.0.0.2", "127.0.0.3"):
            assert [first_bytes(stack, proxy, source) for _ in range(5)] == [OK] * 3 + [b""] * 2
        # The node itself, and two that the inventory names.
        for source in ("127.0.0.1", "127.0.0.4", "127.0.0.5"):
            assert [first_bytes(stack, proxy, source) for _ in range(4)] == [OK] * 4


def first_bytes(stack: contextlib.ExitStack, proxy: Proxy, source: str) -> bytes:
    """Of the answer to a request whose connection stays open; nothing where it is refused."""
    with contextlib.suppress(ConnectionError):
        connection = stack.enter_context(connected(proxy, source))
        return answer(connection, GET)[: len(OK)]
    return b""
