"""A model store of a test's own: it counts what it sends, and stops in the middle on request."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.models import manifest
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, lab_paths

SHARD = "extra-00001-of-00001.safetensors"
# Larger than what two sockets hold, so that what was sent is what arrived, nearly.
SHARD_BYTES = 48 << 20


@dataclass
class Sent:
    """One answer: who asked for which file, from which byte on, and how many bytes it got."""

    client: str
    path: str
    first: int
    count: int = 0


@dataclass
class Store:
    """The lab's model and one large shard more, under a revision of its own."""

    files: dict[str, bytes]
    revision: str
    sent: list[Sent] = field(default_factory=list)
    # Bytes of the shard after which nothing more comes until `go_on` is set; None: all comes.
    hold_at: int | None = None
    go_on: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def answers(self, path: str) -> list[Sent]:
        """The answers with bytes of one file, in order."""
        return [one for one in self.sent if one.path == path]


def build(salt: bytes = b"") -> Store:
    """A store of the published model with a shard that follows from *salt*."""
    published = lab_paths().mirror / "models" / MODEL_NAME
    newest = max(published.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime).parent
    files = {p.name: p.read_bytes() for p in newest.iterdir() if p.name != "manifest.json"}
    files[SHARD] = hashlib.shake_128(b"shard" + salt).digest(SHARD_BYTES)
    files["manifest.json"] = manifest.written(_entry(*each) for each in files.items())
    return Store(files, manifest.revision(files["manifest.json"]))


def _entry(name: str, content: bytes) -> ManifestFile:
    return ManifestFile(name, len(content), hashlib.sha256(content).hexdigest())


def serve(store: Store) -> ThreadingHTTPServer:
    """Serve *store* on the lab's bridge until the server is shut down."""
    server = ThreadingHTTPServer((BRIDGE_ADDRESS, 0), _handler(store))
    server.daemon_threads = True
    store.url = f"http://{BRIDGE_ADDRESS}:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = Path(self.path).name
            known = self.path == f"/{MODEL_NAME}/{store.revision}/{name}" and name in store.files
            if not known:
                self.send_error(404)
                return
            content = store.files[name]
            first = int(self.headers.get("Range", "bytes=0-")[6:-1])
            entry = Sent(self.client_address[0], name, first)
            store.sent.append(entry)
            self.send_response(206 if first else 200)
            if first:
                whole = f"bytes {first}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", whole)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            stop = store.hold_at if name == SHARD else None
            try:
                self._send(entry, content[first:stop])
                if stop is not None:
                    store.go_on.wait(300)
                    self._send(entry, content[max(stop, first) :])
            except OSError:
                pass  # the node was killed, which is what the test is about

        def _send(self, entry: Sent, content: bytes) -> None:
            for start in range(0, len(content), 1 << 16):
                part = content[start : start + (1 << 16)]
                self.wfile.write(part)
                entry.count += len(part)

        def log_message(self, format: str, *args: Any) -> None:
            """The store counts; it does not talk."""

    return Handler
