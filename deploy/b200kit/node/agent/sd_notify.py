"""Telling systemd how a service fares: sd_notify(3) with the standard library."""

from __future__ import annotations

import os
import socket

from b200kit.node.lib.readings import is_digits


def notify(state: str) -> bool:
    """Send a state such as "READY=1" or "WATCHDOG=1"; False where nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A leading @ stands for the null byte of an abstract socket.
    path = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect(path)
        line.sendall(state.encode())
    return True


def watchdog_every_s() -> float | None:
    """Seconds between two signs of life: a third of WatchdogSec=; None where none is asked for."""
    limit = os.environ.get("WATCHDOG_USEC", "")
    return int(limit) / 3e6 if is_digits(limit) and int(limit) else None
