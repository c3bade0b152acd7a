"""`rotation stop SECONDS [PID]`: HAProxy listens no more, and its open requests end in peace.

Called by the gateway's unit at its stop (templates/systemd/gateway.conf.j2): by a reboot, a stop of
the gate, a node that is found red. The replicas are stopped after it. At SIGUSR1 the master tells
all its workers, those of before a reload included: new connections are refused, so that whoever
chooses between nodes goes elsewhere, and idle ones are closed. Each worker ends with its last
request, the master with its last worker. What is open at the deadline is cut by systemd's SIGTERM.
"""

from __future__ import annotations

import os
import select
import signal
import time

from b200kit.node.serving.gateway.haproxy import HAProxyError

AGAIN_S = 0.5


def stop(master: int, within_s: float) -> None:
    """Return when the last request has ended. Raises HAProxyError at the deadline."""
    try:
        handle = os.pidfd_open(master)
    except ProcessLookupError:
        return
    watched = select.poll()
    watched.register(handle, select.POLLIN)
    end = time.monotonic() + within_s
    try:
        while (left := end - time.monotonic()) > 0:
            # A master that has only just reloaded loses it, as it does SIGUSR2 (reload.py).
            signal.pidfd_send_signal(handle, signal.SIGUSR1)
            if watched.poll(min(left, AGAIN_S) * 1000):
                return
        raise HAProxyError(f"requests are cut off: still open after {within_s:g} s")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
