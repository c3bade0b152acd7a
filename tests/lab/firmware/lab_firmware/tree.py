"""A tree of files as data, put on disk, and mounts (by the system call: a boot has dozens)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_PRIVATE = 1 << 18


class Link(str):
    """A symbolic link's target, as the value of a path in a tree."""

    __slots__ = ()


#: path relative to the tree's root -> text (a newline is added), bytes as they are, or a Link
Tree = dict[str, "str | bytes | Link"]


def write(root: Path, tree: Mapping[str, str | bytes | Link]) -> None:
    """Make the files of `tree` below `root`; what is there already is replaced."""
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.unlink(missing_ok=True)
            path.symlink_to(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(f"{content}\n", encoding="utf-8")


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = [word and word.encode() for word in (source, str(target), kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), options and options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def bind(source: Path, target: Path) -> None:
    """Show `source` at `target` as well (both files or both folders)."""
    _mount(str(source), target, None, MS_BIND, None)


def bind_alone(source: Path, target: Path) -> None:
    """As `bind`, and what is mounted over `source` later does not show at `target`."""
    bind(source, target)
    _mount("none", target, None, MS_PRIVATE, None)


def tmpfs(target: Path) -> None:
    """Cover `target` with an empty writable folder."""
    _mount("b200-lab", target, "tmpfs", 0, "mode=0755")


@contextmanager
def remounted_writable(target: Path) -> Iterator[None]:
    """Lift a mount's read-only flag while the block runs."""
    _mount("none", target, None, MS_REMOUNT | MS_BIND, None)
    try:
        yield
    finally:
        _mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)
