"""The mirror over real HTTP on loopback: what is public, what wants the token, what is logged."""

from __future__ import annotations

import http.client
import io
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lab.supply.mirror import MirrorHandler, MirrorServer, may_read
from tests.subtests import in_subtests

TOKEN = "lab-0123456789"


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def port(tmp_path: Path, log: io.StringIO) -> Iterator[int]:
    for name in ("apt/vendor/Release", "models/tiny/1/config.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("content")
    handler = partial(MirrorHandler, directory=str(tmp_path), token=TOKEN, log=log)
    with MirrorServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def get(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, body


@in_subtests(
    "path",
    [
        "/models/tiny/1/config.json",
        "/models",
        "//models/tiny/1/config.json",
        "/%6dodels/tiny/1/config.json",
        "/apt/../models/tiny/1/config.json",
        "/models/absent",
    ],
)
def test_models_are_refused_without_the_token_however_the_path_is_spelt(
    port: int, path: str
) -> None:
    assert get(port, path)[0] == 401


def test_models_are_served_with_the_token_which_is_not_logged(port: int, log: io.StringIO) -> None:
    path = "/models/tiny/1/config.json"
    assert get(port, path, Authorization=f"Bearer {TOKEN}") == (200, b"content")
    assert path in log.getvalue()
    assert TOKEN not in log.getvalue()


@in_subtests("header", [None, "", "Bearer", "Bearer wrong", TOKEN, f"Basic {TOKEN}"])
def test_only_the_bearer_token_opens(header: str | None) -> None:
    assert not may_read(header, TOKEN)
    assert may_read(f"Bearer {TOKEN}", TOKEN)
