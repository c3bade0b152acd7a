"""MAAS' HTTP API as far as a re-image needs it, held to its reference and to its source.

Answers and states: src/maasserver/api/machines.py (allocate, deploy, release), api/nodes.py
(annotations), api/scriptresults.py (results), models/node.py (_finalize_release) and enum.py (names
of states), read 2026-11-27. A stand-in, not MAAS: a real one was not at hand.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.gateway.test_refusals import certificate

KEY = "consumer7:token7:canarysecret7"
SYSTEM = "4y3h7n"


@dataclass
class Maas:
    """One machine. `ways` are the states that come by themselves, one a look."""

    status: str = "Deployed"
    message: str = ""
    installation: int | None = 11
    output: str = ""
    marks: dict[str, str] = field(default_factory=dict)
    ways: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    broken: int = 0

    def look(self) -> dict[str, Any]:
        """The machine as the API shows it."""
        if self.ways:
            self.status = self.ways.pop(0)
            # Whoever had it released has no annotations there any more.
            self.marks = {} if self.status == "Ready" else self.marks
        return {
            "system_id": SYSTEM,
            "hostname": "n01",
            "status_name": self.status,
            "status_message": self.message,
            "owner_data": self.marks,
            "power_state": "on",
        }

    def operate(self, operation: str, fields: dict[str, str]) -> tuple[int, Any]:
        """Release, allocate, mark or deploy; 409 from a state that does not allow it."""
        self.asked.append((operation, fields))
        if operation == "release" and self.status in ("Deployed", "Failed deployment"):
            self.status, self.ways = "Releasing", ["Releasing", "Ready"]
        elif operation == "allocate" and (self.status, fields["system_id"]) == ("Ready", SYSTEM):
            self.status = "Allocated"
        elif operation == "set_workload_annotations" and self.status == "Allocated":
            self.marks |= fields
        elif operation == "deploy" and self.status in ("Ready", "Allocated"):
            self.status, self.ways = "Deploying", ["Deploying", "Deployed"]
            self.installation = (self.installation or 0) + 1
        else:
            return 409, f"Machine cannot be {operation}d in its current state ('{self.status}')."
        return 200, {"system_id": SYSTEM, "status_name": self.status}

    def results(self) -> tuple[int, Any]:
        """The current installation."""
        if self.installation is None:
            return 400, 'Unknown id "current-installation"'
        log = {
            "name": "/tmp/install.log",
            "output": base64.b64encode(self.output.encode()).decode(),
        }
        return 200, {"id": self.installation, "type_name": "Installation", "results": [log]}


@contextmanager
def serving(maas: Maas, folder: Path) -> Iterator[str]:
    """The API on a free port; yields what an inventory calls its URL, trusted by folder/crt."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

        def _answer(self, method: str) -> None:
            code, document = self._route(method)
            body = document if isinstance(document, str) else json.dumps(document)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body.encode())

        def _route(self, method: str) -> tuple[int, Any]:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            if maas.broken:
                maas.broken -= 1
                return 503, "The service is unavailable"
            if not _signed(self.headers.get("Authorization", "")):
                return 401, "Authorization Error: Invalid API key."
            if method == "POST" and url.path in (
                "/MAAS/api/2.0/machines/",
                f"/MAAS/api/2.0/machines/{SYSTEM}/",
            ):
                return maas.operate(query["op"][0], _form(self.headers["Content-Type"], body))
            if url.path == f"/MAAS/api/2.0/machines/{SYSTEM}/":
                return 200, maas.look()
            if url.path == f"/MAAS/api/2.0/nodes/{SYSTEM}/results/current-installation/":
                return maas.results() if query["include_output"] == ["true"] else (500, "")
            return 404, "Not Found"

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    (folder / "pem").write_bytes(certificate(folder))
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(folder / "pem")
    server.socket = trust.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/MAAS"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _signed(header: str) -> bool:
    """OAuth 1.0, PLAINTEXT: an empty consumer secret, "&", the token's secret (RFC 5849, 3.4.4)."""
    consumer, token, secret = KEY.split(":")
    found = {name: unquote(value) for name, value in re.findall(r'(\w+)="([^"]*)"', header)}
    return (
        header.startswith("OAuth ")
        and found
        | {
            "oauth_consumer_key": consumer,
            "oauth_token": token,
            "oauth_signature_method": "PLAINTEXT",
            "oauth_signature": f"&{secret}",
        }
        == found
        and {"oauth_nonce", "oauth_timestamp"} <= found.keys()
    )


def _form(kind: str, body: str) -> dict[str, str]:
    """The fields of multipart/form-data, which is what the API takes."""
    assert kind.startswith("multipart/form-data"), kind
    return dict(re.findall(r'name="([\w-]+)"\r\n\r\n(.*?)\r\n--', body, re.DOTALL))
