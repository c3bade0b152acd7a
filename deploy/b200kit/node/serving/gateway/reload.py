"""`rotation reload PID`: HAProxy reads its configuration again, and is seen to have done so.

Called by the gateway's unit (templates/systemd/gateway.conf.j2). SIGUSR2 alone proves nothing: a
master that has only just reloaded loses it (HAProxy 2.6.12, measured: 8 of 160 sent within
0.1 s of the last), and a configuration that passes `haproxy -c` can still fail to start, for
example where another process has its port. Either way the old worker goes on with the old
configuration, so a reload is done when another worker answers.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from b200kit.node.serving.gateway import haproxy
from b200kit.node.serving.gateway.haproxy import HAProxyError

DONE_WITHIN_S = 60.0  # under systemd's default limit for a reload, 90 s
SIGNAL_AGAIN_S = 5.0
_LOOK_EVERY_S = 0.05


def reload(
    master: int,
    socket: Path = haproxy.SOCKET,
    saved: Path = haproxy.SAVED,
    config: Path = haproxy.CONFIG,
    done_within_s: float = DONE_WITHIN_S,
    signal_again_s: float = SIGNAL_AGAIN_S,
) -> None:
    """Keep who is set aside, reload, and return when a new worker answers. Raises HAProxyError."""
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
