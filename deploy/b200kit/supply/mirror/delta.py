"""From one version of a mirror to the next: what is to carry, and putting it in place.

A delta is a directory with the new index and those files that the old one does not have. On the
other side it becomes the new mirror with what is there; what the new index does not name goes last.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.node.weights.download import sha256
from b200kit.supply.mirror import index, proof
from b200kit.supply.mirror.index import Bytes, Difference, Index


class DeltaRefused(Exception):
    """A delta that does not lead from here to a whole mirror, in one line."""


def read(where: Path) -> Index:
    """The index of a mirror, or of a file that was kept of one; it is not held to a signature."""
    file = where / index.NAME if where.is_dir() else where
    try:
        return index.parse(file.read_bytes())
    except OSError as error:
        raise DeltaRefused(f"{file}: {error.strerror}") from None


def make(new: Path, of: Difference, to: Path) -> None:
    """Write the delta to an empty directory; files are linked where the disk is the same."""
    if to.exists() and any(to.iterdir()):
        raise DeltaRefused(f"{to} is not empty")
    for name in (*of.added, *of.changed, *index.OWN):
        target = to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(new / name, target)
        except OSError:
            shutil.copyfile(new / name, target)


def require_newer(root: Path, of: Index) -> None:
    """Refuse an index that was made before the one of the mirror that is there."""
    if not (root / index.NAME).exists():
        return
    there = read(root)
    if of.made < there.made:
        dates = f"{of.made:%Y-%m-%d %H:%M}, before that of {root}, {there.made:%Y-%m-%d %H:%M}"
        raise DeltaRefused(f"the index was made on {dates}: --older takes it all the same")


def apply(delta: Path, root: Path, of: Index) -> list[str]:
    """Make *root* the mirror of the delta's index, which the caller proved; returns what went.

    Everything is proven before the first file is touched. Killed, it is finished by the next call:
    the index comes last but for what is removed.
    """
    problems = list(_problems(delta, root, of))
    if problems:
        raise DeltaRefused(problems[0])
    for name in of.files:
        if (delta / name).is_file():
            _place(delta / name, root / name)
    for name in index.OWN:
        _place(delta / name, root / name)
    if short := [name for name, wanted in of.files.items() if not _is(root / name, wanted)]:
        raise DeltaRefused(f"{root / short[0]} is not as the index says: apply it again")
    gone = [path for path in _files(root) if path not in of.files and path not in index.OWN]
    for path in gone:
        (root / path).unlink()
    return gone


def _problems(delta: Path, root: Path, of: Index) -> Iterator[str]:
    for line in proof.strangers(delta, of.files):
        yield f"{delta}: {line}"
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            yield f"{path}: a link, through which files would be written elsewhere"
    for name, wanted in of.files.items():
        if not _is(delta / name, wanted) and not _is(root / name, wanted):
            where = delta if (delta / name).exists() else root
            there = "another content" if (where / name).exists() else "missing"
            yield f"{where / name}: {there}; this delta does not lead from here to a whole mirror"


def _is(path: Path, of: Bytes) -> bool:
    sound = path.is_file() and not path.is_symlink() and path.stat().st_size == of.size
    return sound and sha256(path) == of.sha256


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.with_name(f".{target.name}.delta")
    shutil.copyfile(source, building)
    os.replace(building, target)
    durable_files.sync_directory(target.parent)


def _files(root: Path) -> Iterator[str]:
    for path in list(root.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(root).as_posix()
