"""One run at a time a node: a lock with its owner's name and an end; a boot frees it."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files, timestamp

DIRECTORY = Path("/run/b200kit")
DEFAULT_TTL_S = 900
# What a reply reports of the holder; its run, so that a dead one can be taken over by name.
TOLD = ("owner", "run", "since", "until")


def request(requested: dict[str, Any], directory: Path = DIRECTORY) -> dict[str, Any]:
    """Take, refresh or release the lock and report who has it.

    `requested` is {"owner", "run", "ttl_s", "alive", "steal_run"}. alive=false releases a lock of
    ours. steal_run names a run whose holder is known to be dead. Raises OSError when /run is not
    ours.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    guard = os.open(directory / ".guard", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        return decide(requested, directory / "lock.json", datetime.now(timestamp.UTC))
    finally:
        os.close(guard)


def decide(requested: dict[str, Any], path: Path, now: datetime) -> dict[str, Any]:
    """The same under the guard, at a given time."""
    held = current(path, now)
    ours = held is None or is_same(held, requested) or _is_stolen(held, requested)
    if held is not None and not ours:
        return {"acquired": False, **{key: held.get(key) for key in TOLD}}
    if not requested.get("alive", True):
        path.unlink(missing_ok=True)
        return {"acquired": False, **dict.fromkeys(TOLD)}
    since = held["since"] if held and is_same(held, requested) else timestamp.text(now)
    until = timestamp.text(now + timedelta(seconds=float(requested.get("ttl_s", DEFAULT_TTL_S))))
    entry = {
        "owner": str(requested["owner"]),
        "run": str(requested["run"]),
        "since": since,
        "until": until,
    }
    durable_files.replace(path, json.dumps(entry), mode=0o600)
    return {"acquired": True, **{key: entry[key] for key in TOLD}}


def _is_stolen(held: dict[str, Any], requested: dict[str, Any]) -> bool:
    """Whether the request names the holder's run as dead; a lock without a run cannot be named."""
    return "steal_run" in requested and held.get("run") == requested["steal_run"] is not None


def is_same(held: dict[str, Any], requested: dict[str, Any]) -> bool:
    """Whether the holder is this very run."""
    return (held.get("owner"), held.get("run")) == (requested.get("owner"), requested.get("run"))


def current(path: Path, now: datetime) -> dict[str, Any] | None:
    """The lock in force; a lock that is expired or cannot be understood is none."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        until = timestamp.parse(held["until"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return held if until > now else None
