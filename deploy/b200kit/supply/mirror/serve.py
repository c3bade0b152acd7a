"""A mirror over HTTP, to try it; production takes any web server (docs/mirror.md)."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from b200kit.run import console
from b200kit.supply.mirror import images


class _Handler(SimpleHTTPRequestHandler):
    """Files and no lists of directories; a line for every answer."""

    # What a client of registries asks first.
    registry = f"/{images.FOLDER}/"

    protocol_version = "HTTP/1.1"
    timeout = 60

    def list_directory(self, path: Any) -> None:
        """There are none; a registry says that it is one."""
        del path
        if self.path != self.registry:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def guess_type(self, path: Any) -> str:
        """What a registry's clients go by, where it is a manifest."""
        file = Path(path)
        is_manifest = file.parent.name == "manifests" and file.is_file()
        return images.media_type(file) if is_manifest else super().guess_type(path)

    def log_message(self, format: str, *args: Any) -> None:
        """The client, the request, the status."""
        text = (format % args).translate(self._control_char_table)  # type: ignore[attr-defined]
        console.err(f"{self.client_address[0]} {text}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(root: Path, address: str, port: int) -> None:
    """Answer until interrupted; OSError where the address is not to be had."""
    with _Server((address, port), partial(_Handler, directory=str(root))) as server:
        console.err(f"http://{address}:{server.server_port}/ serves {root}")
        server.serve_forever()
