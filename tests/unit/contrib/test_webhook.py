"""contrib/webhook.py: an event reaches the address it is given, and nothing of a secret is said."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.contrib.conftest import CONTRIB
from tests.unit.gateway.test_refusals import certificate

SCRIPT = CONTRIB / "webhook.py"


@dataclass
class Site:
    """An address, what it says, and what it was sent: key and event."""

    folder: Path
    port: int = 0
    status: int = 200
    got: list[tuple[str | None, bytes]] = field(default_factory=list)

    def tell(self, scheme: str = "https", trusts: bool = True) -> subprocess.CompletedProcess[str]:
        """One event."""
        file, ca_file = self.folder / "hook", f"ca_file {self.folder}/crt\n" * trusts
        url = f"{scheme}://localhost:{self.port}/a-secret-path"
        file.write_text(f"url {url}\nkey a-key\n{ca_file}")
        return subprocess.run(
            [SCRIPT, file], input='{"kind": "fault.over"}', capture_output=True, text=True,
            check=False,
        )  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            found.got.append((self.headers.get("Authorization"), self.rfile.read(size)))
            if not found.status:
                self.wfile.write(b"NO HTTP, Bearer a-key\r\n\r\n")
                return
            self.send_response(found.status)
            self.send_header("Location", f"https://localhost:{found.port}/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            found.got.append((self.headers.get("Authorization"), b""))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    (tmp_path / "pem").write_bytes(certificate(tmp_path))
    server = HTTPServer(("127.0.0.1", 0), Handler)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(tmp_path / "pem")
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def test_an_event_is_the_body_and_the_key_a_header(site: Site) -> None:
    assert site.tell().returncode == 0
    assert site.got == [("Bearer a-key", b'{"kind": "fault.over"}')]


@pytest.mark.parametrize(
    ("status", "where"),
    [(500, {}), (302, {}), (0, {}), (200, {"scheme": "http"}), (200, {"trusts": False})],
)
def test_what_is_not_taken_is_told_without_a_secret(
    site: Site, status: int, where: dict[str, Any]
) -> None:
    site.status = status
    done = site.tell(**where)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a-key" not in done.stderr
    assert "a-secret-path" not in done.stderr
    assert len(site.got) == (0 if where else 1)
