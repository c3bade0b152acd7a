"""``lab.json``: what is up, for everything that talks to the lab. Written whole or not at all."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.lab.locks import RUN_DIR, locked
from tests.lab.paths import ID_VARIABLE, LabError, LabPaths


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
    lab.own.mkdir(parents=True, exist_ok=True)
    fresh = lab.state_file.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(state, file, indent=1)
        file.write("\n")
    os.replace(fresh, lab.state_file)


def host_entry(state: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return a host's entry in the state, or None."""
    return next((host for host in state.get("hosts", []) if host["name"] == name), None)


def run_directory(lab: LabPaths) -> Path:
    """Where this machine keeps the lock and the claim of a lab, whatever directory it lives in."""
    return RUN_DIR / str(lab.id)


def lab_lock(lab: LabPaths, seconds: float = 60) -> AbstractContextManager[None]:
    """Hold the lock of one lab; `LabError` naming the holder if it is not free in time."""
    path = run_directory(lab) / "lock"
    note = f", lab directory {lab.root}"
    return locked(path, seconds, "another lab command is running", note)


def check_claim(lab: LabPaths) -> None:
    """Raise `LabError` if the lab of this id is up from another directory."""
    owner = _owner(lab)
    other = owner.read_text(encoding="utf-8").strip() if owner.exists() else ""
    if other and other != str(lab.root):
        raise LabError(
            f"lab {lab.id} is up on this machine, from {other}: "
            f"B200_LAB={other} {ID_VARIABLE}={lab.id} b200 lab down ends it"
        )


def claim_machine(lab: LabPaths) -> None:
    """Record in which directory the lab of this id is; `LabError` if it is up from another one."""
    check_claim(lab)
    owner = _owner(lab)
    owner.parent.mkdir(parents=True, exist_ok=True)
    owner.write_text(f"{lab.root}\n", encoding="utf-8")


def release_machine(lab: LabPaths) -> None:
    """Forget the claim of a lab."""
    _owner(lab).unlink(missing_ok=True)


def _owner(lab: LabPaths) -> Path:
    return run_directory(lab) / "directory"


def claims() -> list[LabPaths]:
    """Return every lab of this machine that is up, or was not taken down."""
    return [
        LabPaths(Path(owner.read_text(encoding="utf-8").strip()), int(owner.parent.name))
        for owner in sorted(RUN_DIR.glob("*/directory"))
        if owner.parent.name.isdecimal()
    ]
