"""What b200kit has put on this node, noted before it is put there, so that it can be removed.

Whatever writes files, settings or packages for the controller goes through `put` and apt's one
script, and these note it here: no stage can forget one (node/maintenance/removal.py takes it back).
"""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from b200kit.node.lib import documents, durable_files

STATE = Path("/var/lib/b200kit")
LIST = STATE / "installed.json"
ORIGINALS = STATE / "originals"
"""Files that were there before ours, under their own paths."""
_SYSCTL = re.compile(r"^([a-z][a-z0-9_./-]*) =", re.MULTILINE)
_WRITTEN = re.compile(r"^w (/\S+) ", re.MULTILINE)
_CHOSEN = re.compile(r"\[(\S+)\]")
_SYSCTLS, _TMPFILES = "/etc/sysctl.d/", "/etc/tmpfiles.d/"
# They end with the boot, or lie in folders that are ours alone.
_NOT_NOTED = ("/run/", f"{STATE}/")


@dataclass(frozen=True)
class PackageChange:
    """One apt transaction: the packages asked for, and those that were not there before it."""

    asked: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Installed:
    """The list.

    *files*: path to the handlers of a change; *replaced*: those that have an original;
    *directories*: made for them; *values*: of the kernel, path to what it was before ours;
    *masked*: units.
    """

    schema: ClassVar[str] = "b200kit/installed/1"
    most_bytes: ClassVar[int] = documents.LARGE
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    masked: tuple[str, ...] = ()
    packages: tuple[PackageChange, ...] = ()


def read(path: Path = LIST) -> Installed:
    """The list as it is; an empty one where nothing was put yet. Raises Malformed."""
    try:
        return documents.load(Installed, path)
    except FileNotFoundError:
        return Installed()


def note_files(files: Iterable[Mapping[str, Any]]) -> None:
    """Note files of `put` that are about to be written, and keep what is in their place.

    Raises OSError.
    """
    known = after = read()
    for file in files:
        if not str(file["path"]).startswith(_NOT_NOTED):
            after = _with(after, str(file["path"]), file)
    if after != known:
        _write(after)


def _with(known: Installed, path: str, file: Mapping[str, Any]) -> Installed:
    if path not in known.files and os.path.lexists(path):
        _keep(Path(path))
        known = replace(known, replaced=(*known.replaced, path))
    made = [
        str(p) for p in Path(path).parents if not p.exists() and str(p) not in known.directories
    ]
    before = {n: value for n, value in _values(path, file) if n not in known.values}
    return replace(
        known,
        files={**known.files, path: tuple(file.get("notify", ()))},
        directories=(*known.directories, *made),
        values={**known.values, **before},
    )


def _keep(path: Path) -> None:
    kept = ORIGINALS / path.relative_to("/")
    # A copy is readable as its folder lets it be until it has the mode of the original.
    ORIGINALS.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    copy(path, kept)


def copy(source: Path, target: Path) -> None:
    """A file with its mode, owner and times, in one step. Raises OSError."""
    beside = target.with_name(f".{target.name}.b200kit")
    shutil.copy2(source, beside, follow_symlinks=False)
    status = os.lstat(source)
    os.chown(beside, status.st_uid, status.st_gid, follow_symlinks=False)
    beside.replace(target)


def _values(path: str, file: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What the kernel has now where a file of settings says something else."""
    if not path.startswith((_SYSCTLS, _TMPFILES)):
        return
    text = base64.b64decode(file["content"]).decode(errors="replace")
    names: list[str] = []
    if path.startswith(_SYSCTLS):
        names = [f"/proc/sys/{key.replace('.', '/')}" for key in _SYSCTL.findall(text)]
    else:
        names = _WRITTEN.findall(text)
    for name in names:
        with suppress(OSError):
            now = Path(name).read_text().strip()
            chosen = _CHOSEN.search(now)
            yield name, chosen[1] if chosen else now


def note_packages(asked: Sequence[str], new: Sequence[str]) -> None:
    """Note what apt is about to bring. Raises OSError."""
    known = read()
    if new and PackageChange(tuple(asked), tuple(new)) not in known.packages:
        _write(replace(known, packages=(*known.packages, PackageChange(tuple(asked), tuple(new)))))


def note_masked(args: list[str]) -> int:
    """Command note-masked: a unit that is about to be masked, once."""
    known = read()
    if args[0] not in known.masked:
        _write(replace(known, masked=(*known.masked, args[0])))
    return 0


def _write(known: Installed) -> None:
    durable_files.replace(LIST, documents.to_bytes(known), 0o644, "root:root")
