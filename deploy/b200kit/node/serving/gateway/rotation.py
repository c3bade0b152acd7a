"""`rotation`: a replica leaves the gateway's rotation at its stop and comes back when it is warm.

Called by the replicas' units (templates/systemd/rotation.conf.j2). "maint" is this program's own
mark; one that somebody drained (`rotation drain vllm0`, or a node of the fleet by its name) stays
drained until that somebody brings it back. Where no gateway runs there is no rotation to leave: a
first start, or a boot.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from b200kit.node.lib.readings import is_digits
from b200kit.node.serving.gateway import haproxy, reload, router, soft_stop
from b200kit.node.serving.gateway.haproxy import HAProxyError

_USAGE = (
    "usage: rotation list | drain NAME | ready NAME | share NAME PERCENT | out N | back N | "
    "reload PID | stop SECONDS [PID] | forget | follow"
)


def out(name: str) -> None:
    """No new requests, unless it is set aside already."""
    if not haproxy.set_aside(name):
        haproxy.set_state(name, "maint")


def back(name: str) -> None:
    """New requests again, if it was this program that kept them away."""
    if haproxy.set_aside(name) == "maint":
        haproxy.set_state(name, "ready")


def tell() -> None:
    """Every server: name, status, requests it is answering."""
    for backend in dict.fromkeys(row["be_name"] for row in haproxy.states()):
        for server in haproxy.servers(backend=backend):
            print(f"{server.name:<12} {server.status:<12} {server.sessions} requests")


def follow() -> None:
    """Tell a router that has just started who is in rotation."""
    for row in haproxy.states():
        if row["be_name"] == haproxy.BACKEND:
            usable = row["srv_admin_state"] == "0" and row["srv_op_state"] == "2"
            router.tell(row["srv_name"], usable)


def _is_warm(name: str) -> bool:
    """Whether the unit of a replica is active, which means warm."""
    unit = f"vllm@{name.removeprefix('vllm')}.service"
    requested = ["systemctl", "is-active", "--quiet", unit]
    return subprocess.run(requested, check=False, timeout=10).returncode == 0


def put(name: str, state: str) -> None:
    """A replica or a node of the fleet, as a person asks."""
    haproxy.set_state(name, state, backend=_home(name))


def give(name: str, percent: int) -> None:
    """In rotation with a share of its weight, as one that comes back gets at first."""
    weight = haproxy.set_share(name, percent, backend=_home(name))
    print(f"{name}: {percent} %, weight {weight}")


def _home(name: str) -> str:
    """The backend of a server; a name that none has is left to HAProxy to refuse."""
    homes = [row["be_name"] for row in haproxy.states() if row["srv_name"] == name]
    return homes[0] if homes else haproxy.BACKEND


def main(args: list[str]) -> int:
    """See _USAGE; 1 with one line when the gateway does not do it."""
    match args:
        case ["list"]:
            act = tell
        case ["drain" | "ready" as state, name]:
            act = partial(put, name, state)
        case ["share", name, percent] if is_digits(percent) and 1 <= int(percent) <= 100:
            act = partial(give, name, int(percent))
        case ["out", number] if is_digits(number):
            act = partial(out, f"vllm{number}")
        case ["back", number] if is_digits(number):
            act = partial(back, f"vllm{number}")
        case ["follow"]:
            act = follow
        case ["forget"]:
            haproxy.forget(_is_warm)
            return 0
        case ["reload", pid] if is_digits(pid):
            act = partial(reload.reload, int(pid))
        case ["stop", seconds, pid] if is_digits(seconds) and is_digits(pid):
            act = partial(soft_stop.stop, int(pid), int(seconds))
        case ["stop", seconds] if is_digits(seconds):
            # systemd names no process: it has ended by itself, and nothing is open.
            return 0
        case _:
            print(_USAGE, file=sys.stderr)
            return 2
    if not haproxy.SOCKET.exists() and args[0] not in ("reload", "stop"):
        return 0
    try:
        act()
    except (HAProxyError, router.RouterError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
