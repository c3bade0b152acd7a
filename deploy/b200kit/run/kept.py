"""What runs left on the controller, removed by age and size: only what is ours, never a link.

A run's folder and an archive are known by their names, which hold their time; whatever else lies
beside them stays. Nothing here raises: what cannot be removed is reported, and the run's result
stays as it was.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from b200kit.inventory.keys.kept import Kept

_RUN = re.compile(r"([0-9]{8}-[0-9]{6})-[0-9]+")
_DAY_S = 86_400
_GIB = 1 << 30


@dataclass(frozen=True)
class Leaving:
    """One run's folder or one archive: where, of what, from when (seconds), how large."""

    path: Path
    of: str
    at: float
    size: int


def runs(folder: Path) -> list[Leaving]:
    """The folders of runs in a folder of reports."""
    found = []
    for entry in _entries(folder):
        began = _began(entry.name)
        if began is not None and entry.is_dir(follow_symlinks=False):
            found.append(Leaving(Path(entry.path), "", began, _size(Path(entry.path))))
    return found


def archives(folder: Path) -> list[Leaving]:
    """The archives in a folder of evidence, each of the node whose folder it lies in."""
    found = []
    for node in _entries(folder):
        if not node.is_dir(follow_symlinks=False):
            continue
        for entry in _entries(Path(node.path)):
            if entry.name.endswith(".tar.gz") and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another controller has just removed it
                    status = entry.stat(follow_symlinks=False)
                    found.append(
                        Leaving(Path(entry.path), node.name, status.st_mtime, status.st_size)
                    )
    return found


def spare(found: Iterable[Leaving], kept: Kept, now: float) -> list[Leaving]:
    """What is to go, the oldest first: too old or beyond the size, but the newest of each stay."""
    newest = sorted(found, key=lambda leaving: (leaving.at, leaving.path.name), reverse=True)
    seen: Counter[str] = Counter()
    size, going = 0, list[Leaving]()
    for leaving in newest:
        seen[leaving.of] += 1
        size += leaving.size
        is_over = now - leaving.at > kept.days * _DAY_S or size > kept.gib * _GIB
        if is_over and seen[leaving.of] > kept.least:
            going.append(leaving)
    return going[::-1]


def remove(going: Iterable[Leaving], kept: Kept, of: str) -> str:
    """Remove these; returns one line about it, empty where nothing was to be done."""
    gone, why = list[Leaving](), ""
    for leaving in going:
        try:
            _remove(leaving.path)
            gone.append(leaving)
        except FileNotFoundError:
            continue
        except OSError as error:
            why = why or f"{leaving.path} cannot be removed: {error.strerror or error}"
    size = sum(leaving.size for leaving in gone) / 1e6
    limits = f"older than {kept.days} days or beyond {kept.gib:g} GiB (kept)"
    line = f"removed {len(gone)} {of}, {size:.1f} MB: {limits}" if gone else ""
    return "; ".join(filter(None, (line, why)))


def widest(asked: Iterable[Kept]) -> Kept:
    """What keeps as much as each of these asks for."""
    every = list(asked) or [Kept()]
    return Kept(
        days=max(kept.days for kept in every),
        gib=max(kept.gib for kept in every),
        least=max(kept.least for kept in every),
    )


def _began(name: str) -> float | None:
    """When the run of a folder's name began; None where it is no run's."""
    match = _RUN.fullmatch(name)
    try:
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").timestamp() if match else None
    except (OverflowError, ValueError):
        return None


def _remove(path: Path) -> None:
    """A folder or a file. What has become a link since is left: rmtree refuses one."""
    if stat.S_ISREG(path.lstat().st_mode):
        path.unlink()
    else:
        shutil.rmtree(path)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What a folder holds; nothing where it is none or cannot be read."""
    try:
        with os.scandir(folder) as entries:
            yield from list(entries)
    except OSError:
        return


def _size(folder: Path) -> int:
    """Bytes of the files in a run's folder."""
    size = 0
    for entry in _entries(folder):
        with contextlib.suppress(OSError):
            size += entry.stat(follow_symlinks=False).st_size
    return size
