"""One control group a host: what makes a host killable, freezable and countable as one thing.

Works on pure cgroup v2 and on hybrid machines, where systemd's own v1 hierarchy is a second tree
that each host needs its own place in, too: otherwise all guests land in the same ``/payload``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.lab.mounts import parse_mountinfo
from tests.lab.paths import LabError, lab_id


def group() -> str:
    """Return the name of the group in which all hosts of this lab have theirs."""
    return f"b200lab-{lab_id()}"


def parse_hierarchies(mountinfo: str) -> list[Path]:
    """Return the mount points of the hierarchies that matter, the v2 one first.

    Raises `LabError` if the machine has no cgroup v2 hierarchy.
    """
    mounts = parse_mountinfo(mountinfo)
    unified = [point for point, kind in mounts if kind == "cgroup2"]
    if not unified:
        raise LabError("this machine has no cgroup v2 hierarchy: the lab stops hosts through it")
    named = [point for point, kind in mounts if kind == "cgroup" and point.name == "systemd"]
    return [unified[0], *named[:1]]


def hierarchies() -> list[Path]:
    """Return `parse_hierarchies` of this machine."""
    return parse_hierarchies(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))


def group_dirs(name: str) -> list[Path]:
    """Return a host's directory in each hierarchy, the v2 one first."""
    return [root / group() / name for root in hierarchies()]


def create(name: str) -> list[Path]:
    """Make a host's control groups and return them."""
    groups = group_dirs(name)
    for directory in groups:
        directory.mkdir(parents=True, exist_ok=True)
    return groups


def populated(name: str) -> bool:
    """Return whether any process of the host is alive."""
    try:
        events = (group_dirs(name)[0] / "cgroup.events").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return "populated 1" in events


def supervised(name: str) -> bool:
    """Return whether nspawn or its supervisor is alive: without them a guest cannot reboot."""
    directory = group_dirs(name)[0]
    outside = (file for file in directory.rglob("cgroup.procs") if "payload" not in file.parts)
    return any(file.read_text(encoding="utf-8").strip() for file in outside)


def present() -> list[str]:
    """Return the names of all hosts that have a control group, alive or not."""
    root = hierarchies()[0] / group()
    return sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []


def condition(name: str) -> str:
    """Return ``running``, ``frozen``, ``stopped``, or ``orphaned`` (its nspawn was killed)."""
    if not populated(name):
        return "stopped"
    if not supervised(name):
        return "orphaned"
    events = (group_dirs(name)[0] / "cgroup.events").read_text(encoding="utf-8")
    return "frozen" if "frozen 1" in events else "running"


def init_pid(name: str) -> int:
    """Return the process id, on this machine, of a host's PID 1; `LabError` if it has none yet."""
    for processes in group_dirs(name)[0].rglob("init.scope/cgroup.procs"):
        for pid in processes.read_text(encoding="utf-8").split():
            status = Path("/proc", pid, "status").read_text(encoding="utf-8")
            ids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
            if ids[-1] == "1":
                return int(pid)
    raise LabError(f"{name} is not running")


def freeze(name: str, frozen: bool) -> None:
    """Stop (or let go on) every process of a host at once; returns when the kernel has done it.

    Raises `LabError` if the host is not running or does not follow within 60 s.
    """
    directory = group_dirs(name)[0]
    if not populated(name):
        raise LabError(f"{name} is not running")
    (directory / "cgroup.freeze").write_text("1" if frozen else "0")
    wanted, events = f"frozen {int(frozen)}", directory / "cgroup.events"
    if not wait_until(lambda: wanted in events.read_text(encoding="utf-8"), 60):
        raise LabError(f"{name} did not reach '{wanted}' within 60 s")


def destroy(name: str) -> None:
    """Kill every process of a host and remove its control groups; nothing if there are none.

    Killing nspawn alone is not enough: with ``--keep-unit`` the guest's PID 1 survives it.
    """
    groups = group_dirs(name)
    if (groups[0] / "cgroup.kill").exists():
        (groups[0] / "cgroup.kill").write_text("1")
        if not wait_until(lambda: not populated(name), 60):
            left = ", ".join(_processes(groups[0]))
            raise LabError(f"{name}: left 60 s after cgroup.kill in {groups[0]}: {left}")
    if not wait_until(lambda: not [one for one in groups if not _remove(one)], 60):
        raise LabError(f"{name}: control groups could not be removed: {groups[0]}")


def _processes(directory: Path) -> Iterator[str]:
    """Yield each process below a control group: id, name, state and what the kernel waits for."""
    for processes in directory.rglob("cgroup.procs"):
        for pid in processes.read_text(encoding="utf-8").split():
            with suppress(OSError):
                status = Path("/proc", pid, "stat").read_text(encoding="utf-8")
                wait = Path("/proc", pid, "wchan").read_text(encoding="utf-8")
                yield f"{status.rpartition(')')[0]}) {status.rpartition(')')[2][1]} {wait}"


def destroy_root() -> None:
    """Remove the lab's own (empty) parent groups."""
    for root in hierarchies():
        if (root / group()).is_dir() and not present():
            _remove(root / group())


def _remove(directory: Path) -> bool:
    """Remove a group with its sub-groups, deepest first; false while something is in it."""
    if not directory.is_dir():
        return True
    below = sorted((path for path in directory.rglob("*") if path.is_dir()), reverse=True)
    try:
        for one in [*below, directory]:
            one.rmdir()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return true as soon as ``condition()`` is true, false if it is not within ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
