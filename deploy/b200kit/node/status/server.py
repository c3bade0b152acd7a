"""`status`: answers for a node's metrics and its share, on the sockets that systemd hands over.

One process without rights, which reads the agent's file alone and starts nothing. A connection is
one of a Prometheus, behind the gateway, or of HAProxy's agent check, which gets one line, "50%".
One that is slow is closed; others wait for it for a second at most. The process ends when its
program was replaced: systemd starts it for the next question.
"""

from __future__ import annotations

import argparse
import os
import selectors
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from b200kit.node.lib import program
from b200kit.node.lib.program import identity
from b200kit.node.state import agent
from b200kit.node.status import metrics, shares

_PASSED = 3
"""The first descriptor that systemd passes on (sd_listen_fds(3))."""
_WITHIN_S = 1.0
SHARE = "share"
_EVERY_S = 60.0
_MOST_OF_A_REQUEST = 65536
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def page(request: bytes, read: Callable[[], str]) -> bytes:
    """The HTTP answer to a request's head."""
    if not request.startswith((b"GET ", b"HEAD ")):
        return _http("405 Method Not Allowed", b"GET only\n")
    return _http("200 OK", read().encode())


def _http(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.0 {status}\r\nContent-Type: {_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _head(asking: socket.socket) -> bytes:
    """The head of a request, read to its end: what is left unread resets the answer."""
    read = b""
    while b"\r\n\r\n" not in read and len(read) < _MOST_OF_A_REQUEST:
        part = asking.recv(4096)
        if not part:
            break
        read += part
    return read


def answer_metrics(asking: socket.socket, tolerance: float) -> None:
    """Answer a Prometheus."""
    read = partial(metrics.of_file, Path(agent.PATH), tolerance)
    asking.sendall(page(_head(asking), read))


def answer_share(asking: socket.socket) -> None:
    """Answer HAProxy's agent check."""
    asking.sendall(f"{shares.now()}%\n".encode())


def serve(
    servers: Mapping[socket.socket, Callable[[socket.socket], None]],
    lives: Callable[[], bool] = lambda: True,
) -> None:
    """Answer every question, one after the other, while it *lives*. Raises OSError."""
    selector = selectors.DefaultSelector()
    for server, answer in servers.items():
        server.setblocking(False)
        selector.register(server, selectors.EVENT_READ, answer)
    while lives():
        for key, _ in selector.select(_EVERY_S):
            # Whoever asked may have gone.
            with suppress(OSError):
                asking, _ = key.fileobj.accept()  # type: ignore[union-attr]
                with asking:
                    asking.settimeout(_WITHIN_S)
                    key.data(asking)


def passed() -> list[socket.socket]:
    """The sockets that systemd handed over."""
    count = os.environ.get("LISTEN_FDS", "")
    return [socket.socket(fileno=_PASSED + at) for at in range(int(count) if count else 0)]


def main(args: list[str]) -> int:
    """`status`; 1 with one line when it could not answer."""
    parser = argparse.ArgumentParser(prog="status", description=__doc__)
    parser.add_argument("--tolerance", type=float, default=0.1, help="share above the record")
    options = parser.parse_args(args)
    asked = partial(answer_metrics, tolerance=options.tolerance)
    known = identity(program.LOCATION)
    try:
        # A path says what is asked for on it (serving/gateway/haproxy_config.py).
        servers = {one: answer_share if SHARE in one.getsockname() else asked for one in passed()}
        serve(servers, lambda: identity(program.LOCATION) == known)
    except OSError as error:
        print(f"status: {error}", file=sys.stderr)
        return 1
    return 0
