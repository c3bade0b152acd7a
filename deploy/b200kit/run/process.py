"""This process on this controller: how it is called, and whether another one still runs.

A process id alone names nothing: another container has its own, and ids come again. With the boot,
the namespace of the ids and the moment of its start it names one process; of one that this process
could not see, nobody here says that it is dead.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Annotated

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Range

# Inode of the namespace that a machine boots with (include/linux/proc_ns.h, PROC_PID_INIT_INO).
_FIRST_NAMESPACE = 0xEFFFFFFC


def owner() -> str:
    """Who holds the locks of this process, for people: user, controller and process id."""
    return f"{getuser()}@{socket.gethostname()} pid {os.getpid()}"


@dataclass(frozen=True)
class Process:
    """One process, as no other was or will be: machine id, boot id, ..., clock ticks since boot."""

    host: str
    machine: str
    boot: str
    namespace: int
    user: int
    pid: Annotated[int, Range(1)]
    started: int


def this() -> Process:
    """This process."""
    return _of(os.getpid())


def is_dead(value: object) -> bool:
    """Whether a process that kept its `this()` has certainly ended."""
    other, here = documents.understood(Process, value), this()
    if other is None:
        return False
    # Machines made of one image may have one machine id: then their names differ.
    if (other.host, other.machine, other.user) != (here.host, here.machine, here.user):
        return False
    if other.boot != here.boot:
        # A container of the same image has the same machine id on another machine.
        first = other.namespace == here.namespace == _FIRST_NAMESPACE
        return bool(here.machine) and first
    if other.namespace != here.namespace:
        return False
    return _started(other.pid) != other.started


def _of(pid: int) -> Process:
    return Process(
        host=socket.gethostname(),
        machine=_text("/etc/machine-id"),
        boot=_text("/proc/sys/kernel/random/boot_id"),
        namespace=os.stat("/proc/self/ns/pid").st_ino,
        user=os.getuid(),
        pid=pid,
        started=_started(pid) or 0,
    )


def _started(pid: int) -> int | None:
    """When a process began; None for one that has ended, a zombie included."""
    # proc(5): after the name, which may hold anything, field 3 is the state and 22 the start.
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
