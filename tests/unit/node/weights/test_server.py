"""A weights server gives whole models to whom it names, and nothing else of the machine."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from b200kit.node.weights import fetch
from b200kit.node.weights import server as weights_server

FILES = {"config.json": b"{}", "weights/a.bin": bytes(range(256)) * 64}
Ask = Callable[..., "tuple[int, bytes, dict[str, str]]"]


@pytest.fixture
def revision(tmp_path: Path) -> str:
    """A whole model, and one that was only begun, below tmp_path/models."""
    listed = [
        {"path": path, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in FILES.items()
    ]
    raw = json.dumps({"files": listed}).encode()
    name = hashlib.sha256(raw).hexdigest()
    for model in ("whole", "begun"):
        for path, content in {**FILES, "manifest.json": raw}.items():
            target = tmp_path / "models" / model / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    (tmp_path / "models" / "whole" / name / ".complete").write_text(name)
    (tmp_path / "models" / "whole" / name / "secret.txt").write_text("not the model's")
    return name


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Starts a weights server for some networks; its port."""
    servers = []

    def start(*networks: str) -> int:
        shelf = weights_server.Shelf(tmp_path / "models")
        allowed = [ipaddress.ip_network(network) for network in networks]
        server = weights_server.serve("127.0.0.1", 0, shelf, allowed)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ask(open_server: Callable[..., int], revision: str) -> Ask:
    """Asks a weights server that allows this machine: status, body, headers."""
    port = open_server("127.0.0.0/8")

    def get(path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request("GET", path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.read(), dict(reply.headers)
        finally:
            connection.close()

    return get


def test_files_of_a_whole_model_are_given(ask: Ask, revision: str) -> None:
    for path, content in FILES.items():
        assert ask(f"/whole/{revision}/{path}")[:2] == (200, content)
    assert ask(f"/whole/{revision}/manifest.json")[0] == 200


def test_the_rest_of_a_file_is_given_from_a_byte_on(ask: Ask, revision: str) -> None:
    status, body, headers = ask(f"/whole/{revision}/weights/a.bin", Range="bytes=16000-")
    assert (status, body) == (206, FILES["weights/a.bin"][16000:])
    assert headers["Content-Range"] == "bytes 16000-16383/16384"
    assert ask(f"/whole/{revision}/weights/a.bin", Range="bytes=16384-")[0] == 416


@pytest.mark.parametrize(
    "path",
    [
        "/begun/{}/config.json",
        "/begun/{}/manifest.json",
        "/whole/{}/secret.txt",
        "/whole/{}/.complete",
        "/whole/{}/",
        "/whole/{}",
        "/whole/000000000000/config.json",
        "/whole/{}/../../../other/x",
        "/whole/{}/%2e%2e/%2e%2e/whole/{}/config.json",
        "/../etc/passwd",
        "/etc/passwd",
        "/",
    ],
)
def test_nothing_else_is_given(ask: Ask, revision: str, path: str) -> None:
    assert ask(path.replace("{}", revision))[:2] == (404, b"")


def test_whoever_is_not_named_gets_nothing(open_server: Callable[..., int], revision: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", open_server("192.0.2.0/24"), timeout=120)
    connection.request("GET", f"/whole/{revision}/config.json")
    reply = connection.getresponse()
    assert (reply.status, reply.read()) == (403, b"")
    connection.close()


def test_one_source_does_not_take_every_task_with_idle_connections(
    open_server: Callable[..., int], revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights_server, "OF_A_SOURCE", 4)
    port = open_server("127.0.0.0/8")
    asked = f"GET /whole/{revision}/config.json HTTP/1.1\r\nHost: x\r\n\r\n".encode()

    def answered(source: str) -> bytes:
        to = ("127.0.0.1", port)
        connection = socket.create_connection(to, 120, source_address=(source, 0))
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(asked)
            return connection.recv(1 << 16)
        return b""

    with contextlib.ExitStack() as idle:
        for _ in range(4):
            idle.enter_context(socket.create_connection(("127.0.0.1", port), 120))
        assert answered("127.0.0.1") == b""
        assert answered("127.0.0.2").startswith(b"HTTP/1.1 200")
    # Each that has ended makes room for another, however many there were.
    for _ in range(3 * 4):
        while not answered("127.0.0.1"):
            pass


def test_model_comes_from_a_weights_server_whole_and_proven(
    tmp_path: Path, open_server: Callable[..., int], revision: str
) -> None:
    peer = f"http://127.0.0.1:{open_server('127.0.0.1/32')}/whole/{revision}"
    dest = tmp_path / "other"
    words = ["--peer", peer, "--dest", str(dest), "--revision", revision]
    assert fetch.main(words) == 0
    assert {path: (dest / path).read_bytes() for path in FILES} == FILES
