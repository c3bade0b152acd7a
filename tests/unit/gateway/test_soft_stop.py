"""The gateway's planned stop: what is open ends, nothing new comes in, within a deadline."""

from __future__ import annotations

import socket
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from b200kit.node.serving.gateway import rotation
from b200kit.node.serving.gateway.haproxy import HAProxyError
from tests.messages import raises_message
from tests.unit.gateway.proxy import Proxy, running
from tests.unit.gateway.test_streams import ASK, CHUNKS, waiting

LONG_S = 600
IDLE = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer node-key\r\n\r\n"


def connect(proxy: Proxy) -> socket.socket:
    """A client of the gateway."""
    address = urlsplit(proxy.url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=60)


def until(client: socket.socket, text: bytes) -> bytes:
    """What comes up to a text; all of it where the connection is closed before."""
    seen = b""
    while text not in seen and (piece := client.recv(65536)):
        seen += piece
    return seen


def open_stream(proxy: Proxy) -> socket.socket:
    """A stream of which the client has seen the first chunk."""
    client = connect(proxy)
    client.sendall(ASK)
    until(client, b"event 0\n\n")
    return client


@pytest.mark.process
@pytest.mark.parametrize("reloaded", [False, True])
def test_open_stream_ends_whole_while_new_connections_are_refused(
    tmp_path: Path, reloaded: bool
) -> None:
    with waiting() as server, running(tmp_path, [server.port]) as proxy:
        with open_stream(proxy) as client:
            if reloaded:
                proxy.reload()
            stopping = threading.Thread(target=rotation.stop, args=(proxy.process.pid, LONG_S))
            stopping.start()
            _until_refused(proxy)
            for seen in server.seen:
                seen.set()
            rest = until(client, b"0\r\n\r\n")
        stopping.join()
        assert all(b"event %d\n" % number in rest for number in range(1, CHUNKS))
        assert proxy.process.wait(60) == 0


def _until_refused(proxy: Proxy) -> None:
    while True:
        try:
            connect(proxy).close()
        except ConnectionError:
            return


@pytest.mark.process
def test_connection_that_is_kept_for_a_next_request_does_not_hold_the_stop(tmp_path: Path) -> None:
    with waiting() as server, running(tmp_path, [server.port]) as proxy, connect(proxy) as kept:
        kept.sendall(IDLE)
        until(kept, b"{}")
        rotation.stop(proxy.process.pid, LONG_S)
        assert kept.recv(1) == b""
        assert proxy.process.wait(60) == 0


@pytest.mark.process
def test_the_deadline_is_kept_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "AGAIN_S", 0.02)
    with (
        waiting() as server,
        running(tmp_path, [server.port]) as proxy,
        open_stream(proxy) as client,
    ):
        with raises_message(HAProxyError):
            rotation.stop(proxy.process.pid, 0.5)
        # However often it was told, it has cut nothing.
        server.seen[0].set()
        assert b"event 1\n" in until(client, b"event 1\n")
        # What systemd sends next cuts it.
        proxy.process.terminate()
        assert b"0\r\n\r\n" not in until(client, b"0\r\n\r\n")


def test_gateway_that_has_ended_by_itself_is_stopped() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    rotation.stop(process.pid, LONG_S)
