"""Runs on a node: an HTTPS server that writes down each POST.

    python3 webhook.py PORT PEM RESULT

RESULT gets a line of JSON for each: {"authorization": ..., "event": ...}.
"""

from __future__ import annotations

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


def main(port: str, pem: str, result: str) -> None:
    """Serve until killed."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            entry = {"authorization": self.headers["Authorization"], "event": json.loads(body)}
            with open(result, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
            self.send_response(204)
            self.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = HTTPServer(("127.0.0.1", int(port)), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
