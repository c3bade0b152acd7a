"""What settings of the operating system are in force, as the kernel and the manager say it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import absent, attempt, command, text

PROC = Path("/proc")
SYS = Path("/sys")
GRUB_CONFIG = Path("/boot/grub/grub.cfg")
CAP_SYS_RESOURCE = 1 << 24
LIMITS = {
    "memlock": "DefaultLimitMEMLOCK",
    "nofile": "DefaultLimitNOFILE",
    "nproc": "DefaultLimitNPROC",
}
# A line `linux /boot/vmlinuz-6.1.0-28-amd64 root=UUID=... ro quiet` of an entry.
_LINUX = re.compile(r"^\s*linux(?:16|efi)?\s+\S+[ \t]*(.*)$", re.MULTILINE)


def requested(ask: dict[str, Any]) -> dict[str, Any]:
    """The readings of the part `kernel` that depend on what was asked, and its lists."""
    return {
        "sysctls": sysctls(ask.get("sysctls", [])),
        "module_parameters": module_parameters(ask.get("module_parameters", [])),
        "raises_limits": attempt(raises_limits),
        "swaps": attempt(swaps),
    }


def sysctls(names: Iterable[str]) -> dict[str, Any]:
    """Kernel settings by name; null where this kernel has no such setting."""
    return {name: attempt(partial(sysctl, name)) for name in names}


def sysctl(name: str) -> str | None:
    """One setting, its blanks made single: "32768 60999"."""
    value = absent(PROC / "sys" / name.replace(".", "/"))
    return None if value is None else " ".join(value.split())


def module_parameters(names: Iterable[str]) -> dict[str, Any]:
    """Parameters that modules run with, by MODULE.NAME; null where the module is not loaded."""
    return {name: attempt(partial(module_parameter, name)) for name in names}


def module_parameter(name: str) -> str | None:
    """One parameter, as its module shows it: Y and N are a flag's."""
    module, _, parameter = name.partition(".")
    return absent(SYS / "module" / module / "parameters" / parameter)


def limits() -> dict[str, int]:
    """Hard limits the service manager gives a unit that says nothing itself; -1 is unlimited."""
    answer = command(["systemctl", "show", f"--property={','.join(LIMITS.values())}"])
    pairs = dict(line.split("=", 1) for line in answer.splitlines() if "=" in line)
    return {name: number(pairs[directive]) for name, directive in LIMITS.items()}


def raises_limits() -> bool:
    """Whether this process may raise hard limits, as a login must (CAP_SYS_RESOURCE)."""
    for line in text(PROC / "self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & CAP_SYS_RESOURCE)
    raise ValueError("/proc/self/status has no capabilities")


def number(word: str) -> int:
    """A limit as systemd writes it."""
    return -1 if word == "infinity" else int(word)


def swaps() -> list[str]:
    """Files and devices in use as swap."""
    return [line.split()[0] for line in text(PROC / "swaps").splitlines()[1:] if line.strip()]


def grub_cmdline() -> str | None:
    """What GRUB's first entry gives the kernel, "" without one; null without update-grub.

    update-grub writes the same words into every entry but those for recovery, which come later.
    """
    if shutil.which("update-grub") is None:
        return None
    found = _LINUX.search(absent(GRUB_CONFIG) or "")
    return found[1].strip() if found else ""
