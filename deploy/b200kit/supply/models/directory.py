"""A model in a directory: its files, no link out of it among them, and their hashes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from b200kit.node.weights.download import sha256
from b200kit.node.weights.manifest import ManifestFile
from b200kit.supply.models.checkpoint import is_left_out


def files(root: Path, without: Collection[str]) -> dict[str, Path]:
    """Each file that belongs to the model, by its path from *root*.

    Raises ValueError for a link that leads out of it, and for what is neither file nor folder.
    """
    found = dict(_below(root))
    return {path: at for path, at in sorted(found.items()) if not is_left_out(path, without)}


def _below(root: Path) -> Iterator[tuple[str, Path]]:
    top = root.resolve()
    for folder, folders, names in os.walk(root):
        for name in [*names, *(each for each in folders if Path(folder, each).is_symlink())]:
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if not path.resolve().is_relative_to(top):
                raise ValueError(f"{relative} is a link out of {root}")
            if not path.is_file():
                raise ValueError(f"{relative} is no file")
            yield relative, path


def entry(path: str, at: Path) -> ManifestFile:
    """A file's line in the manifest."""
    return ManifestFile(path, at.stat().st_size, sha256(at))


def head(at: Path, count: int) -> bytes:
    """The first bytes of a file."""
    with at.open("rb") as file:
        return file.read(count)
