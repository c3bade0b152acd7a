"""`weights-server`: give whole models to other nodes, read-only, and to named networks alone.

Only what a manifest names, of a model that is stamped; no listing, no links, nothing else of the
directory. Who asks is held against the networks here, besides the unit's own filter and the
firewall. Whoever fetches proves every byte, so plain HTTP cannot harm it.

    GET /NAME/REVISION/manifest.json      GET /NAME/REVISION/FILE
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import stat
import threading
import urllib.parse
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from b200kit.node.weights import model_files
from b200kit.node.weights.manifest import NAME, STAMP, ManifestError

AT_ONCE = 64
"""Answers at a time; more are asked to come again, which a fetch does."""
OF_A_SOURCE = 64
"""Connections that one address may have open: each takes one of the unit's tasks. A node fetches 32
files at a time at most."""
_FROM = re.compile(r"bytes=([0-9]{1,18})-")
_MODEL = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.-]*)/([0-9a-f]{64})/(.+)")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Shelf:
    """What may be given; a manifest is read again only when its model was stamped again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._named: dict[tuple[Path, int], frozenset[str]] = {}

    def find(self, path: str) -> Path | None:
        """The file of a request's path; None for everything that is not to be given."""
        model = _MODEL.fullmatch(path)
        if not model:
            return None
        directory = self._root / model[1] / model[2]
        try:
            return directory / model[3] if model[3] in self._files(directory, model[2]) else None
        except (OSError, ManifestError):
            return None

    def _files(self, directory: Path, revision: str) -> frozenset[str]:
        stamp = (directory, (directory / STAMP).stat().st_mtime_ns)
        if stamp not in self._named:
            entries = model_files.manifest(directory, revision)
            self._named[stamp] = frozenset([NAME, *(entry.path for entry in entries)])
        return self._named[stamp]


class Handler(BaseHTTPRequestHandler):
    """One connection of another node."""

    protocol_version = "HTTP/1.1"
    server_version = "b200-weights-server"
    sys_version = ""
    timeout = 60

    def __init__(
        self, *args: Any, shelf: Shelf, networks: list[Network], room: threading.Semaphore
    ) -> None:
        self.shelf, self.networks, self.room = shelf, networks, room
        super().__init__(*args)

    def do_GET(self) -> None:
        """A file, whole or from a byte on."""
        if not self._allowed():
            return self._refuse(403)
        if not self.room.acquire(blocking=False):
            return self._refuse(503)
        try:
            found = self.shelf.find(urllib.parse.unquote(self.path.partition("?")[0]))
            file = _opened(found) if found else None
            if file is None:
                return self._refuse(404)
            with file:
                self._give(file)
        finally:
            self.room.release()

    def _allowed(self) -> bool:
        address = ipaddress.ip_address(self.client_address[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)

    def _give(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        requested = _FROM.fullmatch(self.headers.get("Range", ""))
        first = int(requested[1]) if requested else 0
        if first >= size > 0:
            return self._refuse(416)
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - first))
        self.send_header("Content-Type", "application/octet-stream")
        self.end_headers()
        self.wfile.flush()
        self.connection.sendfile(file, first)

    def _refuse(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """One line in the journal: who asked for what, and the answer's status."""
        text = (format % args).encode("unicode_escape").decode("ascii")
        print(f"{self.client_address[0]} {text}", flush=True)


def _opened(path: Path) -> BinaryIO | None:
    """A plain file, opened; None for what is none, or not to be read by us."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    file = os.fdopen(descriptor, "rb")
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return file
    file.close()
    return None


class ModelFileServer(ThreadingHTTPServer):
    """A thread a connection, on IPv4 or IPv6."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any, **options: Any) -> None:
        self._open: Counter[str] = Counter()
        self._counting = threading.Lock()
        super().__init__(*args, **options)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a source has room for another connection; a fetch comes again."""
        with self._counting:
            return self._open[client_address[0]] < OF_A_SOURCE

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count it until its thread has ended."""
        self._count(client_address, 1)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._count(client_address, -1)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._count(client_address, -1)

    def _count(self, client_address: Any, more: int) -> None:
        with self._counting:
            self._open[client_address[0]] += more
            self._open += Counter()  # forgets those without any

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A node that went away in the middle is no matter: it asks for the rest."""
        print(f"{client_address[0]} broke off", flush=True)


def serve(address: str, port: int, shelf: Shelf, networks: list[Network]) -> ModelFileServer:
    """A server that is bound and not yet serving."""
    kind = ipaddress.ip_address(address).version
    server = type("Bound", (ModelFileServer,), {"address_family": 10 if kind == 6 else 2})
    room = threading.BoundedSemaphore(AT_ONCE)
    made: ModelFileServer = server(
        (address, port), partial(Handler, shelf=shelf, networks=networks, room=room)
    )
    return made


def main(args: list[str]) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="weights-server")
    parser.add_argument("--root", type=Path, required=True, help="where models lie")
    parser.add_argument("--bind", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--allow", action="append", required=True, type=ipaddress.ip_network, metavar="NETWORK"
    )
    options = parser.parse_args(args)
    shelf = Shelf(options.root)
    with serve(options.bind, options.port, shelf, options.allow) as server:
        server.serve_forever()
    return 0
