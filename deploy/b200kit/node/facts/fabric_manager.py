"""The fabric manager's mode, and whether the subnet manager it needs on NVLink 5 runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import absent, attempt, is_digits, text

PROC = Path("/proc")
CONFIG = Path("/usr/share/nvidia/nvswitch/fabricmanager.cfg")
MODE = re.compile(r"^\s*FABRIC_MODE\s*=\s*([0-9]+)", re.MULTILINE)
SUBNET_MANAGER = "nvlsm"
PROGRAM = Path("/opt/nvidia/nvlsm/sbin/nvlsm")
"""Where its package puts it (siderolabs/extensions#717)."""
GONE = ("Z", "X")
"""States of a process that has ended and is only not yet waited for."""
_LAST: dict[str, str] = {}
"""Name of a process to its number, as it was found last."""


def fabric_manager() -> dict[str, Any]:
    """How the fabric manager is configured, and what it needs."""
    return {
        "mode": attempt(mode),
        "nvlsm_running": attempt(lambda: running(SUBNET_MANAGER)),
        "nvlsm_installed": attempt(installed),
    }


def mode() -> int | None:
    """FABRIC_MODE: 0 bare metal, 1 shared NVSwitch, 2 vGPU; null without the file or the key."""
    values = MODE.findall(absent(CONFIG) or "")
    return int(values[-1]) if values else None


def installed() -> bool:
    """Whether the subnet manager's program is there and can be run."""
    return PROGRAM.is_file() and os.access(PROGRAM, os.X_OK)


def running(name: str) -> bool:
    """Whether a process of that name lives; OSError when other users' processes are hidden."""
    hidden = not (PROC / "1").exists()  # hidepid=2; with hidepid=1 their files cannot be read
    # A node has thousands of processes: where it was the last time comes first.
    for number in chain(filter(None, [_LAST.get(name)]), _listed()):
        try:
            if text(PROC / number / "comm") == name and lives(PROC / number):
                _LAST[name] = number
                return True
        except PermissionError:
            hidden = True
        except (FileNotFoundError, ProcessLookupError):
            continue
    if hidden:
        raise PermissionError("/proc hides the processes of other users")
    return False


def _listed() -> Iterator[str]:
    yield from filter(is_digits, os.listdir(PROC))


def lives(process: Path) -> bool:
    """Whether a process is no zombie: the state after the name, which may hold anything."""
    status = (process / "stat").read_text(encoding="utf-8", errors="replace")
    return status.rpartition(")")[2].split()[0] not in GONE
