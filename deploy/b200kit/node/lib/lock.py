"""One run at a time a node: a lock with its owner's name and an end; a boot frees it.

Its end is counted by a clock that nobody sets; the times it tells are for people.

flock asks for no right but to open: who may read a lock, or a folder that is one, can hold it for
ever. So no lock is a name in a folder that others write to, nor a file that they read (`opened`).
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from b200kit.node.lib import boot_clock, documents, durable_files, timestamp
from b200kit.node.lib.boot_clock import Moment

DIRECTORY = Path("/run/b200kit")
DEFAULT_TTL_S = 900
# What a reply reports of the holder; its run, so that a dead one can be taken over by name.
SHOWN = ("owner", "process", "run", "since", "until")


def request(requested: dict[str, Any], directory: Path = DIRECTORY) -> dict[str, Any]:
    """Take, refresh or release the lock and report who has it.

    `requested` is {"owner", "process", "run", "ttl_s", "alive", "steal_run"}. alive=false releases
    a lock of ours. steal_run names a run whose holder is known to be dead. Raises OSError when /run
    is not ours.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    guard = os.open(directory / ".guard", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        return decide(requested, directory / "lock.json", boot_clock.now())
    finally:
        os.close(guard)


def decide(requested: dict[str, Any], path: Path, now: Moment) -> dict[str, Any]:
    """The same under the guard, at a given time."""
    held = current(path, now)
    ours = held is None or is_same(held, requested) or _is_stolen(held, requested)
    if held is not None and not ours:
        return {"acquired": False, **{key: held.get(key) for key in SHOWN}}
    if not requested.get("alive", True):
        path.unlink(missing_ok=True)
        return {"acquired": False, **dict.fromkeys(SHOWN)}
    ttl_s = float(requested.get("ttl_s", DEFAULT_TTL_S))
    entry = {
        "owner": str(requested["owner"]),
        "run": str(requested["run"]),
        "process": requested.get("process"),
        "since": held["since"] if held and is_same(held, requested) else timestamp.now(),
        "until": timestamp.now(ttl_s),
        "boot_id": now.boot_id,
        "ends": now.seconds + ttl_s,
    }
    durable_files.replace(path, json.dumps(entry), mode=0o600)
    return {"acquired": True, **{key: entry[key] for key in SHOWN}}


def _is_stolen(held: dict[str, Any], requested: dict[str, Any]) -> bool:
    """Whether the request names the holder's run as dead; a lock without a run cannot be named."""
    return "steal_run" in requested and held.get("run") == requested["steal_run"] is not None


def is_same(held: dict[str, Any], requested: dict[str, Any]) -> bool:
    """Whether the holder is this very run."""
    return all(held.get(key) == requested.get(key) for key in ("owner", "process", "run"))


def current(path: Path, now: Moment) -> dict[str, Any] | None:
    """The lock in force; one of another boot, expired or not to be understood is none."""
    try:
        held = documents.read(path)
        in_force = held["boot_id"] == now.boot_id and float(held["ends"]) > now.seconds
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return held if in_force else None


def opened(path: Path) -> int:
    """A file to lock, made where it is missing; locked until its descriptor is closed."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
