"""The endpoint of the metrics, asked of a real HAProxy: who may read what, and of which replica."""

from __future__ import annotations

import http.client
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from b200kit.inventory.keys.monitoring import Monitoring
from b200kit.node.status.server import page
from tests.subtests import in_subtests
from tests.unit.gateway.proxy import free_port, running

pytestmark = pytest.mark.process

FILE = Path("metrics.prom")
PAGE = "# TYPE b200_x gauge\nb200_x 1\n"


class Engine(BaseHTTPRequestHandler):
    """Says which replica it is, on which path it was asked, with which key."""

    server: ThreadingHTTPServer

    def do_GET(self) -> None:
        """An answer to anything."""
        key = self.headers.get("Authorization")
        body = f"{self.server.server_port} {self.path} {key}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        # A health check reads the status and goes.
        with suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Answering(socketserver.StreamRequestHandler):
    """Stands for the node program: one answer to each connection."""

    def handle(self) -> None:
        """As `status` does, of a page that lies there; nothing where none does."""
        with suppress(OSError):
            self.wfile.write(page(self.rfile.readline(), FILE.read_text))


@dataclass
class Endpoint:
    """Where the metrics are, the ports of the replicas, and where requests go."""

    port: int
    replicas: list[int]
    url: str

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Status and body."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as line:
            line.request(method, path, headers={"Authorization": "Bearer of-a-stranger"})
            answer = line.getresponse()
            return answer.status, answer.read().decode()


def serving(folder: Path, sources: tuple[str, ...]) -> Iterator[Endpoint]:
    """A gateway with the endpoint, before two engines and the node's own answer."""
    engines = [ThreadingHTTPServer(("127.0.0.1", 0), Engine) for _ in range(2)]
    node = socketserver.ThreadingUnixStreamServer(str(folder / "metrics"), Answering)
    every: list[socketserver.BaseServer] = [*engines, node]
    for server in every:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    ports, port = [int(one.server_address[1]) for one in engines], free_port()
    asked = Monitoring.model_validate({"from": sources, "port": port})
    with running(folder, ports, monitoring=asked) as gateway:
        yield Endpoint(port, ports, gateway.url)
    for server in every:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """One that this machine may read."""
    yield from serving(tmp_path_factory.mktemp("metrics"), ("127.0.0.0/8",))


def test_the_nodes_own_are_what_its_last_look_wrote(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FILE", tmp_path / "metrics.prom")
    assert endpoint.get("/metrics")[0] in (502, 503)
    (tmp_path / "metrics.prom").write_text(PAGE)
    assert endpoint.get("/metrics") == (200, PAGE)


def test_the_gateways_own_count_the_requests_of_each_server(endpoint: Endpoint) -> None:
    status, page = endpoint.get("/metrics/haproxy")
    assert status == 200
    assert 'haproxy_server_status{proxy="replicas",server="vllm0",state="UP"}' in page


def test_each_replica_is_asked_for_its_metrics_alone_with_the_nodes_key(
    endpoint: Endpoint,
) -> None:
    for number, port in enumerate(endpoint.replicas):
        assert endpoint.get(f"/metrics/replica/{number}") == (
            200,
            f"{port} /metrics Bearer node-key",
        )


@in_subtests(
    ("path", "method", "status"),
    [
        ("/metrics/replica/2", "GET", 404),
        ("/metrics/replica/0/../../v1/models", "GET", 404),
        ("/v1/models", "GET", 404),
        ("/metrics/", "GET", 404),
        ("/metrics", "POST", 405),
    ],
)
def test_nothing_else_is_answered(endpoint: Endpoint, path: str, method: str, status: int) -> None:
    assert endpoint.get(path, method)[0] == status


def test_others_are_not_let_in(tmp_path: Path) -> None:
    for foreign in serving(tmp_path, ("192.0.2.7",)):
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            foreign.get("/metrics")
