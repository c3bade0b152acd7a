"""`rotation`: a replica leaves the gateway's rotation at its stop and comes back when it is warm.

Called by the replicas' units (templates/systemd/rotation.conf.j2). "maint" is this program's own
mark; one that somebody drained (`rotation drain vllm0`, or a node of the fleet by its name) stays
drained until that somebody brings it back. Where no gateway runs there is no rotation to leave: a
first start, or a boot. The gateway's own unit calls `reload` and `stop`.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from b200kit.node.lib.readings import is_digits
from b200kit.node.serving.gateway import haproxy, router
from b200kit.node.serving.gateway.haproxy import HAProxyError

_USAGE = (
    "usage: rotation list | drain NAME | ready NAME | share NAME PERCENT | out N | back N | "
    "reload PID | stop SECONDS [PID] | forget | follow"
)
AGAIN_S = 0.5
DONE_WITHIN_S = 60.0  # under systemd's default limit for a reload, 90 s
SIGNAL_AGAIN_S = 5.0
_LOOK_EVERY_S = 0.05


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
            act = partial(reload, int(pid))
        case ["stop", seconds, pid] if is_digits(seconds) and is_digits(pid):
            act = partial(stop, int(pid), int(seconds))
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


def stop(master: int, within_s: float) -> None:
    """HAProxy listens no more; return when its last request has ended, HAProxyError if too late.

    The gateway's unit calls it at its stop: by a reboot, a stop of the gate, a node that is found
    red; the replicas are stopped after it. At SIGUSR1 the master tells all its workers, those of
    before a reload included: new connections are refused, so that whoever chooses between nodes
    goes elsewhere, and idle ones are closed. Each worker ends with its last request, the master
    with its last worker. What is open at the deadline is cut by systemd's SIGTERM.
    """
    try:
        handle = os.pidfd_open(master)
    except ProcessLookupError:
        return
    watched = select.poll()
    watched.register(handle, select.POLLIN)
    end = time.monotonic() + within_s
    try:
        while (left := end - time.monotonic()) > 0:
            # A master that has only just reloaded loses it, as it does SIGUSR2.
            signal.pidfd_send_signal(handle, signal.SIGUSR1)
            if watched.poll(min(left, AGAIN_S) * 1000):
                return
        raise HAProxyError(f"requests are cut off: still open after {within_s:g} s")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def reload(
    master: int,
    socket: Path = haproxy.SOCKET,
    saved: Path = haproxy.SAVED,
    config: Path = haproxy.CONFIG,
    done_within_s: float = DONE_WITHIN_S,
    signal_again_s: float = SIGNAL_AGAIN_S,
) -> None:
    """Keep who is set aside, reload, and return when a new worker answers. Raises HAProxyError.

    SIGUSR2 alone proves nothing: a master that has only just reloaded loses it (HAProxy 2.6.12,
    measured: 8 of 160 sent within 0.1 s of the last), and a configuration that passes `haproxy -c`
    can still fail to start, as where another process has its port. Either way the old worker goes
    on with the old configuration, so a reload is done when another worker answers.
    """
    try:
        haproxy.keep(socket, saved, config)
    except HAProxyError as error:
        print(error, file=sys.stderr)  # a worker that does not answer is replaced all the same
    before = _worker(socket)
    end = time.monotonic() + done_within_s
    while time.monotonic() < end:
        _signal(master)
        if _replaced(before, socket, min(end, time.monotonic() + signal_again_s)):
            return
    raise HAProxyError(
        f"HAProxy started no new worker within {done_within_s:g} s and goes on with its previous "
        f"configuration; the cause: journalctl -u {haproxy.UNIT}"
    )


def _signal(master: int) -> None:
    try:
        os.kill(master, signal.SIGUSR2)
    except OSError as error:
        raise HAProxyError(f"HAProxy's process {master}: {error.strerror}") from error


def _replaced(before: str | None, socket: Path, end: float) -> bool:
    """Whether another worker than `before` answers by then."""
    while time.monotonic() < end:
        if (now := _worker(socket)) and now != before:
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


def _worker(socket: Path) -> str | None:
    """The PID of the worker that answers; None while none does."""
    try:
        fields = dict(
            line.partition(": ")[::2] for line in haproxy.ask("show info", socket).splitlines()
        )
    except HAProxyError:
        return None
    return fields.get("Pid")
