"""Why an installation failed, in one line, from its log and from what it left on the node."""

from __future__ import annotations

import os
from pathlib import Path

from b200kit.node.facts import dpkg, system
from b200kit.node.lib import apt_output

_MOUNTS = ("/", "/usr", "/var", "/boot")
_FULL_BYTES = 1 << 20
_NAMED = 3


def why(lines: list[str]) -> str:
    """The cause of a failed installation in one line; empty when apt's own line says it best."""
    full = apt_output.no_room(lines)
    if full:
        return no_space(*full)
    failure = apt_output.dkms_failure(lines)
    if failure:
        return failure.describe(read_lines(failure.log))
    if package := apt_output.lacks_contrib(lines):
        return (
            f"the driver depends on {package}, which is in Debian's contrib: "
            "add contrib to the components of the node's Debian source, then run again"
        )
    held = dpkg.holder() if apt_output.is_locked(lines) else None
    if held:
        return f"{held} holds the lock of dpkg; wait for it or end it, then run again"
    failed = apt_output.unconfigured(lines)
    if failed:
        return f"package {failed[0]} could not be configured: {failed[1]}"
    errors = [line for line in lines if line.startswith("E: ")]
    return "" if any("Sub-process" not in line for line in errors) else cut_short()


def cut_short() -> str:
    """What an installation left that ended without a word, as a killed one does; or nothing."""
    left = sorted(unfinished().items(), key=lambda entry: entry[1][1:2] not in "FH")
    if not left and not dpkg.interrupted():
        return ""
    named = [f"{name} ({state})" for name, state in left[:_NAMED]]
    if len(left) > _NAMED:
        named.append(f"{len(left) - _NAMED} more")
    text = ", ".join(named) or "its journal"
    return f"the installation was cut short; dpkg left {text}: run again to finish it"


def no_space(line: str, path: str | None) -> str:
    """Names the file system that is full: of the path the message has, else those that look so."""
    full = [path for path in _MOUNTS if os.path.ismount(path) and room(path)[1] < _FULL_BYTES]
    where = mount_point(nearest(path)) if path else ", ".join(full)
    if not where:
        return f"no disk space: {line}"
    text = f" ({megabytes(room(where)[0])} in all)" if path else ""
    return f"no disk space on {where}{text}: {line}; make room, then run again"


def mount_point(path: str) -> str:
    """Where the file system of a path is mounted."""
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def read_lines(path: str | Path | None) -> list[str]:
    """Lines of a text file; [] when there is none."""
    try:
        return Path(path or "/nonexistent").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def unfinished() -> dict[str, str]:
    """Packages that are not fully installed now."""
    return dpkg.broken(system.listing())


def nearest(path: str) -> str:
    """The path, or its nearest parent that exists."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def room(path: str) -> tuple[int, int]:
    """Bytes in all and free of a path's file system, for root."""
    observed = os.statvfs(nearest(path))
    return observed.f_blocks * observed.f_frsize, observed.f_bfree * observed.f_frsize


def megabytes(size: int) -> str:
    """A size as a person reads it."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
