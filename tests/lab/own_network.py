"""Where a lab's bridge is: lab 0 is in the machine's own network, every other in a namespace.

All labs thus have the same addresses, and a node's disk fits each of them. A process reaches the
nodes of a lab once it has joined its namespace (`join`); what it starts is in there, too. From
inside there is no way out: what downloads something does so `outside`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.lab.locks import RUN_DIR, locked
from tests.lab.paths import MAX_LABS, LabError, lab_id
from tests.lab.shell import run

NAMESPACES = Path("/run/netns")
_MINE = Path("/proc/thread-self/ns/net")
_CLONE_NEWNET = 0x40000000
_LOCK_S = 60


def namespace(lab: int) -> str:
    """Return the name of a lab's namespace."""
    return f"b200-lab-{lab}"


def join() -> None:
    """Let this thread, and what it starts from now on, be in the network of its lab.

    The namespace is made if it is not there. Nothing happens in lab 0.
    """
    lab = lab_id()
    if not lab or _is_mine(_path(lab)):
        return
    with _alone(lab):
        if not exists():
            _make(lab)
        _enter(_path(lab))


def exists() -> bool:
    """Return whether the lab has its network; the file of a name alone is none."""
    return lab_id() == 0 or os.path.ismount(_path(lab_id()))


def leave() -> None:
    """Go back to the machine's network and remove the lab's, unless others are in it."""
    lab = lab_id()
    if not lab:
        return
    with _alone(lab):
        if _is_mine(_path(lab)):
            _enter(way_out(lab))
        if not (exists() and _others(_path(lab))):
            _remove(lab)


@contextmanager
def outside() -> Iterator[None]:
    """Be in the machine's own network while the block runs."""
    lab = lab_id()
    if not lab or not _is_mine(_path(lab)):
        yield
        return
    _enter(way_out(lab))
    try:
        yield
    finally:
        _enter(_path(lab))


def _path(lab: int) -> Path:
    return NAMESPACES / namespace(lab)


def way_out(lab: int) -> Path:
    """The machine's own network, held by name for whoever was born inside."""
    return RUN_DIR / str(lab) / "outside"


def _make(lab: int) -> None:
    _remove(lab)
    way_out(lab).touch()
    run(["mount", "--bind", _machines_network(), way_out(lab)])
    run(["ip", "netns", "add", namespace(lab)])
    run(["ip", "-n", namespace(lab), "link", "set", "lo", "up"])


def _remove(lab: int) -> None:
    """Remove what there is of a lab's network, all of it or what a killed process has left."""
    if _path(lab).exists():
        run(["ip", "netns", "del", namespace(lab)])
    while os.path.ismount(way_out(lab)):
        run(["umount", "--lazy", way_out(lab)])
    way_out(lab).unlink(missing_ok=True)


def _alone(lab: int) -> AbstractContextManager[None]:
    """Hold the lock under which a lab's network is made and removed."""
    return locked(RUN_DIR / str(lab) / "network.lock", _LOCK_S, f"the network of lab {lab} is busy")


def _machines_network() -> Path:
    """The network that this process is in, or came from if it is in that of another lab."""
    for other in range(1, MAX_LABS):
        if _is_mine(_path(other)):
            return way_out(other)
    return Path(f"/proc/{os.getpid()}/ns/net")


def _is_mine(path: Path) -> bool:
    try:
        there, here = path.stat(), _MINE.stat()
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _others(path: Path) -> bool:
    """Return whether any process is in the namespace."""
    wanted = path.stat()
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found = process.stat()
        except OSError:  # it has ended, or is not to be looked at
            continue
        if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _enter(path: Path) -> None:
    """Have the calling thread enter a network namespace."""
    with open(path, "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise LabError(f"the network of the lab cannot be entered ({path}): {reason}")
