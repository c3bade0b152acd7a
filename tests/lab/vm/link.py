"""The machine's cable: an interface of this machine on the lab's bridge."""

from __future__ import annotations

from tests.lab.network import has_interface
from tests.lab.paths import BRIDGE
from tests.lab.shell import run

INTERFACE = "labvm0"
MAC = "02:b2:00:00:01:00"


def ensure() -> None:
    """Make the interface, on the bridge and up, unless it is there."""
    if not _exists():
        run(["ip", "tuntap", "add", "dev", INTERFACE, "mode", "tap"])
    run(["ip", "link", "set", INTERFACE, "master", BRIDGE, "up"])


def remove() -> None:
    """Remove the interface if it is there."""
    if _exists():
        run(["ip", "link", "del", INTERFACE])


def _exists() -> bool:
    return has_interface(INTERFACE)
