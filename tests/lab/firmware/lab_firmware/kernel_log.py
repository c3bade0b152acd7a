"""The simulated kernel's messages, given to journald as a kernel's: `journalctl -k` shows them.

In a container there is no /dev/kmsg. For the moment in which journald starts, a FIFO stands there:
journald opens it as its kernel log and keeps it open. Then the name goes away again, because a FIFO
that nobody reads would block whoever writes to /dev/kmsg, PID 1 included. This process holds the
other end and writes one record at a time.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import platform
import socket
import sys
import termios
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import cures, grub, modules, site
from .modprobe import SCENARIO

KMSG = Path("/dev/kmsg")
READ_WITHIN_S = 15.0
WARNING, INFO = 4, 6


def messages(scenario: Mapping[str, Any], driver: str | None) -> Iterator[tuple[int, int, str]]:
    """(seconds after boot, priority, text) of every message, in order of time."""
    yield 0, INFO, f"Linux version {platform.release()} (b200kit lab, simulation)"
    yield 0, INFO, f"Command line: {grub.cmdline(scenario)}"
    if driver:
        yield 0, WARNING, "nvidia: loading out-of-tree module taints kernel."
        yield 0, INFO, f"NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  {driver}"
        for xid in sorted(scenario["xids"], key=lambda xid: int(xid["after_s"])):
            yield xid["after_s"], WARNING, xid["line"]


def _unread(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


def _write(fd: int, record: str) -> bool:
    """Write one record and wait until journald has taken it; False when it does not."""
    os.write(fd, record.encode())
    deadline = time.monotonic() + READ_WITHIN_S
    while _unread(fd):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _notify_ready() -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)


def _open_fifo() -> int:
    """A FIFO at /dev/kmsg that has a reader (this process) before anyone can see it."""
    hidden = KMSG.with_name(".b200-lab-kmsg")
    hidden.unlink(missing_ok=True)
    os.mkfifo(hidden, 0o600)
    fd = os.open(hidden, os.O_RDWR | os.O_CLOEXEC)
    os.rename(hidden, KMSG)
    return fd


def later(scenarios: Iterable[Mapping[str, Any]], said: set[str]) -> Iterator[tuple[int, str]]:
    """(priority, text) of every Xid of the scenarios that follow and was not said in this boot."""
    for scenario in scenarios:
        for line in (str(xid["line"]) for xid in scenario["xids"]):
            if line not in said:
                said.add(line)
                yield WARNING, line


def _injected(every_s: float = 0.5) -> Iterator[dict[str, Any]]:
    """The scenario on the disk whenever faults are injected, for ever."""
    was = _presence()
    while True:
        time.sleep(every_s)
        if (now := _presence()) != was:
            was = now
            yield json.loads(SCENARIO.read_text(encoding="utf-8"))


def _presence() -> int:
    """Changes with every injection, and with nothing else while the node is up."""
    return cures.PRESENT.stat().st_mtime_ns if cures.PRESENT.exists() else 0


def spoken(scenario: Mapping[str, Any], driver: str | None) -> Iterator[tuple[int, str]]:
    """(priority, text) of every message, each when its time has come."""
    start, said = time.monotonic(), set[str]()
    for after_s, priority, text in messages(scenario, driver):
        time.sleep(max(0.0, start + after_s - time.monotonic()))
        said.add(text)
        yield priority, text
    if driver:
        yield from later(_injected(), said)


def main() -> int:
    """Say everything there is to say; with a driver there is always more to come."""
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    site.forbid_modules(scenario)  # this runs beside the firmware's own unit
    driver = modules.at_boot().get("nvidia")
    fd = _open_fifo()
    _notify_ready()
    try:
        for number, (priority, text) in enumerate(spoken(scenario, driver)):
            usec = int(time.monotonic() * 1_000_000)
            if not _write(fd, f"{priority},{number},{usec},-;{text}\n"):
                return 1
            KMSG.unlink(missing_ok=True)
    finally:
        KMSG.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
