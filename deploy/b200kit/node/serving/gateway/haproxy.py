"""The gateway's admin socket: which replicas are in rotation, and putting one out of it and back.

The socket is root's alone (templates/haproxy/haproxy.cfg.j2). What is set here is kept beside it in
HAProxy's own format (`show servers state`), which HAProxy reads whenever it starts or reloads: a
drained replica is not put back by a reload or a crash. It lies under /run: a boot forgets it.
"""

from __future__ import annotations

import csv
import io
import os
import re
import socket as sockets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.node.serving.gateway import router

UNIT = "haproxy.service"
SOCKET = Path("/run/haproxy/b200kit.sock")
SAVED = Path("/run/b200kit/haproxy-servers")
CONFIG = Path("/etc/haproxy/haproxy.cfg")
UPSTREAM = Path("/etc/haproxy/b200kit-upstream.map")
BACKEND = "replicas"
FLOOR = "nodes_floor"
"""Where too few of the fleet have proven what they serve: the same servers, followed by name."""
SHARE_OF = "share_of_"
"""How the backends begin by which the fleet's endpoint asks each node for its share."""
STATES = ("drain", "maint", "ready")
ANSWER_WITHIN_S = 10.0
_ADMIN = {"drain": 8, "maint": 1}
_SERVER = re.compile(r"^\s*server (\S+) \S+:([0-9]+)", re.MULTILINE)


class HAProxyError(Exception):
    """The gateway could not be asked or refused; the text is one clear line."""


@dataclass(frozen=True)
class GatewayServer:
    """One server of a backend: HAProxy's word for its status ("UP", "DRAIN", "MAINT", "DOWN" and
    forms of them such as "DOWN 1/2"), the requests it is answering, its weight in force.
    """

    name: str
    status: str
    sessions: int
    weight: int = 1

    @property
    def takes_requests(self) -> bool:
        """Whether new requests may go to it. "no check" is a server that is taken to be up."""
        return self.status.startswith("UP") or self.status == "no check"


def ask(command: str, socket: Path = SOCKET) -> str:
    """The answer to one command. Raises HAProxyError."""
    try:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as line:
            line.settimeout(ANSWER_WITHIN_S)
            line.connect(str(socket))
            line.sendall(command.encode() + b"\n")
            return _all_of(line).decode("utf-8", "replace")
    except OSError as error:
        message = error.strerror or str(error) or type(error).__name__
        raise HAProxyError(f"HAProxy's admin socket {socket}: {message}") from error


def _all_of(line: sockets.socket) -> bytes:
    pieces = []
    while piece := line.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def traffic(
    socket: Path = SOCKET, backend: str = BACKEND, besides: str | None = None
) -> tuple[int, int]:
    """Requests that a backend was given since HAProxy began, and those under way now.

    *besides*: another backend that counts with it, where there is one. Raises HAProxyError.
    """
    answer = ask("show stat", socket)
    rows = [*_rows(answer, backend), *(_named(answer, besides) if besides else ())]
    whole = [row for row in rows if row.get("svname") == "BACKEND"]
    try:
        given, under_way = zip(
            *((int(row["stot"]), int(row["scur"])) for row in whole), strict=True
        )
    except (KeyError, ValueError) as error:
        raise HAProxyError(f"HAProxy's statistics are not as expected: {error}") from error
    return sum(given), sum(under_way)


def servers(socket: Path = SOCKET, backend: str = BACKEND) -> list[GatewayServer]:
    """The backend's servers, in the configuration's order. Raises HAProxyError."""
    own = _rows(ask("show stat", socket), backend)
    return [_server(row) for row in own if row.get("svname") not in ("BACKEND", "FRONTEND")]


def _rows(answer: str, backend: str) -> list[dict[str, str]]:
    own = _named(answer, backend)
    if not own:
        raise HAProxyError(f"HAProxy knows no backend {backend}: {_line(answer)}")
    return own


def _named(answer: str, backend: str) -> list[dict[str, str]]:
    rows = csv.DictReader(io.StringIO(answer.removeprefix("# ")))
    return [row for row in rows if row.get("pxname") == backend]


def _server(row: dict[str, str]) -> GatewayServer:
    try:
        waiting = int(row["qcur"] or 0)
        return GatewayServer(
            row["svname"], row["status"], int(row["scur"]) + waiting, int(row["weight"])
        )
    except (KeyError, ValueError) as error:
        raise HAProxyError(f"HAProxy's statistics are not as expected: {error}") from error


def set_state(
    name: str, state: str, socket: Path = SOCKET, saved: Path = SAVED, backend: str = BACKEND
) -> None:
    """Put a server out of rotation and back, over reloads too. Raises HAProxyError.

    "drain": no new requests, those under way end in peace, its health goes on being checked.
    "maint": the same without checks. "ready": back in rotation.
    """
    if state not in STATES:
        raise HAProxyError(f'no state "{state}"; known: {", ".join(STATES)}')
    output = ask(f"set server {backend}/{name} state {state}", socket).strip()
    if output:
        raise HAProxyError(f"HAProxy: {backend}/{name} to {state}: {_line(output)}")
    keep(socket, saved)
    try:
        router.tell(name, state == "ready")
    except router.RouterError as error:
        raise HAProxyError(str(error)) from error


def keep(socket: Path = SOCKET, saved: Path = SAVED, config: Path = CONFIG) -> None:
    """Write down who is set aside, for the next start or reload. Raises HAProxyError.

    HAProxy takes a server's port from there, too, so the configuration's is put in.
    """
    try:
        ports = dict(_SERVER.findall(config.read_text())) if config.exists() else {}
        rows = [row for row in states(socket) if _is_changed(row)]
        _write(saved, [{**r, "srv_port": ports.get(r["srv_name"], r["srv_port"])} for r in rows])
    except OSError as error:
        raise HAProxyError(f"{saved}: {error.strerror}") from error


def _is_changed(row: dict[str, str]) -> bool:
    """Whether somebody set it aside, or gave it another weight than the configuration does."""
    return row["srv_admin_state"] != "0" or row["srv_uweight"] != row["srv_iweight"]


def _write(saved: Path, rows: list[dict[str, str]]) -> None:
    """A state as HAProxy reads it."""
    os.makedirs(saved.parent, mode=0o755, exist_ok=True)
    header = ["1", "# " + " ".join(rows[0])] if rows else ["1"]
    durable_files.replace(
        saved, "\n".join([*header, *(" ".join(row.values()) for row in rows)]) + "\n"
    )


def forget(over: Callable[[str], bool], saved: Path = SAVED) -> None:
    """Before a start: drop the "maint" of servers of which *over* says that it no longer holds.

    Whoever set it may have found no HAProxy to take it back from.
    """
    maint = str(_ADMIN["maint"])
    rows = _saved(saved)
    _write(saved, [r for r in rows if r["srv_admin_state"] != maint or not over(r["srv_name"])])


def strike(names: Collection[str], saved: Path = SAVED) -> None:
    """Drop what is kept of some servers, "replicas/vllm0", while no HAProxy runs to drop it."""
    _write(saved, [r for r in _saved(saved) if f"{r['be_name']}/{r['srv_name']}" not in names])


def _saved(saved: Path) -> list[dict[str, str]]:
    try:
        text = saved.read_text()
    except FileNotFoundError:
        return []
    return rows_of(text) if text.count("\n") > 1 else []


def set_share(
    name: str, percent: int, socket: Path = SOCKET, saved: Path = SAVED, backend: str = BACKEND
) -> int:
    """In rotation with a share of the weight it is configured with, 1 at least; the weight."""
    whole = int(state(name, socket, backend)["srv_iweight"])
    weight = min(whole, max(1, round(whole * percent / 100)))
    output = ask(f"set server {backend}/{name} weight {weight}", socket).strip()
    if output:
        raise HAProxyError(f"HAProxy: {backend}/{name} to weight {weight}: {_line(output)}")
    set_state(name, "ready", socket, saved, backend)
    return weight


def states(socket: Path = SOCKET) -> list[dict[str, str]]:
    """What HAProxy itself would keep of each server, by its own column names. Raises HAProxyError.

    srv_admin_state is a sum (see _ADMIN; management.txt of HAProxy, "show servers state"). Servers
    of FLOOR follow others of the same name, those of SHARE_OF get no requests: both are left out.
    """
    rows = rows_of(ask("show servers state", socket))
    return [row for row in rows if not row["be_name"].startswith((FLOOR, SHARE_OF))]


def rows_of(answer: str) -> list[dict[str, str]]:
    """The same from the text of a kept state."""
    version, _, table = answer.partition("\n")
    if version != "1" or not table.startswith("# "):
        raise HAProxyError(f"HAProxy's servers have no known form: {_line(answer)}")
    names, *rows = (line.split() for line in table.removeprefix("# ").splitlines() if line.strip())
    return [dict(zip(names, row, strict=False)) for row in rows]


def state(name: str, socket: Path = SOCKET, backend: str = BACKEND) -> dict[str, str]:
    """The same of one server. Raises HAProxyError when there is none of this name."""
    for row in states(socket):
        if (row["be_name"], row["srv_name"]) == (backend, name):
            return row
    raise HAProxyError(f"HAProxy has no server {backend}/{name}")


def set_aside(name: str, socket: Path = SOCKET, backend: str = BACKEND) -> str | None:
    """What was set of a server: "drain", "maint", or None when it is in rotation as it should."""
    admin = int(state(name, socket, backend)["srv_admin_state"])
    return next((word for word, bit in _ADMIN.items() if admin & bit), None)


def point(name: str, host: str, port: int, socket: Path = SOCKET, backend: str = BACKEND) -> None:
    """Let a server's name mean another address, as one that was restarted on another port has."""
    row = state(name, socket, backend)
    if (row["srv_addr"], row["srv_port"]) != (host, str(port)):
        ask(f"set server {backend}/{name} addr {host} port {port}", socket)


def show_key(key: str, socket: Path = SOCKET, upstream: Path = UPSTREAM) -> None:
    """Show the servers another key from now on; the file itself is the controller's."""
    if not ask(f"show map {upstream}", socket).strip():
        return
    output = ask(f"set map {upstream} node Bearer\\ {key}", socket).strip()
    if output:
        raise HAProxyError("HAProxy does not take the replicas' new key")


def _line(output: str) -> str:
    return " ".join(output.split())[:200] or "no answer"
