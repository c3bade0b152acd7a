"""Overlay mounts, read from and judged by the kernel's own list."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.lab.paths import LabError
from tests.lab.shell import run

# What runs behind this has mounts of its own, which end with it, however it ends: a tree that a
# killed mmdebstrap left can be removed.
OWN_MOUNTS = ("unshare", "--mount")


def parse_mountinfo(text: str) -> list[tuple[Path, str]]:
    """Return (mount point, file system type) of each line of a ``mountinfo`` file."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split()[4])
        mounts.append((Path(point), after.split()[0]))
    return mounts


def mounted_below(path: Path) -> list[Path]:
    """Return the mount points at or below ``path``, deepest first."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found = [point for point, _ in parse_mountinfo(text) if point == path or path in point.parents]
    return sorted(found, key=lambda point: len(point.parts), reverse=True)


def mount_overlay(lower: Sequence[Path], upper: Path, work: Path, merged: Path) -> None:
    """Lay ``upper`` over the ``lower`` layers (topmost first) at ``merged``; makes directories."""
    for directory in (upper, work, merged):
        directory.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", f"lab-{merged.parent.name}", "-o", options, merged])


def unmount_below(path: Path) -> None:
    """Unmount everything at or below ``path``; lazily where something still holds it."""
    for point in mounted_below(path):
        if run(["umount", point], check=False).returncode != 0:
            run(["umount", "-l", point])


def remove_tree(path: Path) -> None:
    """Remove a directory tree if it is there; never one with something mounted in it."""
    if not path.exists():
        return
    mounted = mounted_below(path)
    if mounted:
        raise LabError(f"{mounted[0]} is still mounted: unmount it, then run the command again")
    shutil.rmtree(path)
