"""Reboot a node and wait for it: by boot id and deadline, with the host key still pinned.

pyinfra's own reboot judges by uptime, which a node that was up for less than its delay makes
ambiguous, and counts tries instead of time.
"""

from __future__ import annotations

import time

from pyinfra.api.exceptions import ConnectError

from deploy.core import drift
from deploy.remote import Remote, RemoteError
from deploy.run import Node, duration

_POLL_S = 1.0


def reasons(node: Node) -> list[str]:
    """Why the node must reboot before it can go on; empty when nothing needs it."""
    state = node.state or {}
    found = []
    if (state.get("files") or {}).get(drift.PENDING_REBOOT) is not None:
        found.append("boot-time configuration changed")
    modules = state.get("modules") or {}
    loaded = modules.get("nvidia", "")
    # Only what was read is a reason: a node whose modules cannot be told is for the gate to refuse.
    if loaded is None:
        found.append("the nvidia module is not loaded")
    elif isinstance(loaded, str) and loaded and loaded != node.spec.driver:
        found.append(f"the loaded nvidia module is {loaded}")
    return found


def reboot_and_wait(node: Node) -> str:
    """Reboot; returns how long it took. Raises RemoteError when the node is not back in time."""
    remote = node.connected()
    before = _boot_id(remote)
    started = time.monotonic()
    # Detached and delayed, so that this command ends before the connection does.
    remote.run("systemd-run --quiet --on-active=1 systemctl reboot", timeout=30)
    deadline = started + node.spec.reboot_deadline_s
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        if _is_back(remote, before):
            return f"back after {duration(time.monotonic() - started)}, same host key, new boot id"
    raise RemoteError(
        f"did not come back within {duration(node.spec.reboot_deadline_s)} of its reboot; "
        f"look at {node.spec.console}"
    )


def _is_back(remote: Remote, before: str) -> bool:
    try:
        remote.reconnect()
        return _boot_id(remote) != before
    except (ConnectError, RemoteError):
        return False


def _boot_id(remote: Remote) -> str:
    return remote.run("cat /proc/sys/kernel/random/boot_id", timeout=20).strip()
