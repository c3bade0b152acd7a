"""``lab.json``: what is up, for everything that talks to the lab. Written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.paths import LabError, LabPaths

# One bridge and one set of host names a machine, whatever directory a lab lives in.
RUN_DIR = Path("/run/b200-lab")


def read_state(lab: LabPaths) -> dict[str, Any]:
    """Return ``lab.json`` as written by `write_state`, or an empty dict when no lab is up."""
    try:
        return json.loads(lab.state_file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise LabError(f"{lab.state_file} is damaged ({error}): run `b200 lab down`") from error


def write_state(lab: LabPaths, state: dict[str, Any]) -> None:
    """Replace ``lab.json`` in one step; mode 0600, as it names the model store's token."""
    lab.root.mkdir(parents=True, exist_ok=True)
    fresh = lab.state_file.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
        file.write("\n")
    os.replace(fresh, lab.state_file)


def host_entry(state: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return a host's entry in the state, or None."""
    return next((host for host in state.get("hosts", []) if host["name"] == name), None)


@contextmanager
def lab_lock(lab: LabPaths, seconds: float = 60) -> Iterator[None]:
    """Hold the machine's lab lock; `LabError` naming the holder if it is not free in time."""
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    with open(RUN_DIR / "lock", "a+", encoding="utf-8") as file:
        end = time.monotonic() + seconds
        while not _try_lock(file.fileno()):
            if time.monotonic() > end:
                file.seek(0)
                raise LabError(f"another lab command is running: {file.read().strip()}")
            time.sleep(0.2)
        file.truncate(0)
        file.write(f"process {os.getpid()}, lab directory {lab.root}\n")
        file.flush()
        yield
        file.truncate(0)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def claim_machine(lab: LabPaths) -> None:
    """Record that this lab directory owns the machine's bridge; `LabError` if another one does."""
    owner = RUN_DIR / "directory"
    other = owner.read_text(encoding="utf-8").strip() if owner.exists() else ""
    if other and other != str(lab.root):
        raise LabError(
            f"a lab from {other} is up on this machine: B200_LAB={other} b200 lab down ends it"
        )
    RUN_DIR.mkdir(parents=True, exist_ok=True)
    owner.write_text(f"{lab.root}\n", encoding="utf-8")


def release_machine() -> None:
    """Forget who owns the machine's bridge."""
    (RUN_DIR / "directory").unlink(missing_ok=True)
