"""The mirror a site without internet access would have: repositories, wheels, images and models.

Run as a program of its own (`mirror_process` starts it); standard library only, no lab imports.
Everything is public on the bridge but ``/models/``, which wants ``Authorization: Bearer TOKEN``.
"""

from __future__ import annotations

import argparse
import hmac
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

HEALTH = "/healthz"
GUARDED = "models"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def is_guarded(root: Path, translated: str) -> bool:
    """Return whether an absolute, dot-free path lies in the guarded part of ``root``."""
    guarded = root / GUARDED
    path = Path(translated)
    return path == guarded or guarded in path.parents


def may_read(authorization: str | None, token: str) -> bool:
    """Return whether an Authorization header carries the token, in constant time."""
    return hmac.compare_digest((authorization or "").encode(), f"Bearer {token}".encode())


class MirrorHandler(SimpleHTTPRequestHandler):
    """Serve files below the document root; log who asked for what, never their credentials."""

    protocol_version = "HTTP/1.1"
    server_version = "b200-lab-mirror"
    timeout = 60
    _log_lock = threading.Lock()

    def __init__(self, *args: Any, token: str, log: IO[str], **kwargs: Any) -> None:
        self.token, self.log = token, log
        super().__init__(*args, **kwargs)

    def send_head(self) -> Any:
        """Answer the health check, refuse what has no token, serve the rest."""
        if self.path == HEALTH:
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        # A repository published twice in one second has one Last-Modified: never answer 304.
        del self.headers["If-Modified-Since"]
        guarded = is_guarded(Path(self.directory), self.translate_path(self.path))
        if guarded and not may_read(self.headers.get("Authorization"), self.token):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        return super().send_head()

    def guess_type(self, path: Any) -> str:
        """Return what a file is; a registry's clients go by what a manifest is called."""
        return MANIFEST if Path(path).parent.name == "manifests" else super().guess_type(path)

    def log_message(self, format: str, *args: Any) -> None:
        """Append one line: time (UTC), client, request line, status, size."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = (format % args).translate(self._control_char_table)  # type: ignore[attr-defined]
        with self._log_lock:
            self.log.write(f"{moment} {self.client_address[0]} {text}\n")
            self.log.flush()


class MirrorServer(ThreadingHTTPServer):
    """One thread a connection; restarts at once on the same port."""

    daemon_threads = True
    request_queue_size = 128


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--bind", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token-file", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args(argv)
    token = options.token_file.read_text(encoding="utf-8").strip()
    with open(options.log, "a", encoding="utf-8") as log:
        handler = partial(MirrorHandler, directory=str(options.root), token=token, log=log)
        with MirrorServer((options.bind, options.port), handler) as server:
            server.serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
