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

from b200kit.node.serving.gateway.haproxy import HAProxyError


def stop(master: int, within_s: float) -> None:
    """Return when the last request has ended. Raises HAProxyError at the deadline."""
    try:
        handle = os.pidfd_open(master)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGUSR1)
        watched = select.poll()
        watched.register(handle, select.POLLIN)
        if not watched.poll(within_s * 1000):
            raise HAProxyError(f"requests are cut off: still open after {within_s:g} s")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
