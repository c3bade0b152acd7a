"""Files that outlast a power cut: replaced in one step, and on the disk when the call returns.

A writer that is killed leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(
    path: Path,
    content: bytes | str,
    mode: int = 0o644,
    owner: str | tuple[int, int] | None = None,
) -> None:
    """Put *content* in the place of *path*; *owner* is "user:group", or their two numbers.

    A new directory is 0755, or 0700 above a root-only file. Raises OSError, and then the old file
    is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    with space_named(path, len(data)):
        _replace(path, data, mode, owner)


@contextmanager
def space_named(path: Path, size: int) -> Iterator[None]:
    """Let the error of a full disk say which file it was, what it needs and what is left."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        what = f"{os.strerror(error.errno)}, {size} bytes to write and {_free(path)} free"
        raise OSError(error.errno, what, str(path)) from None


def _free(path: Path) -> int:
    there = next(folder for folder in path.absolute().parents if folder.is_dir())
    found = os.statvfs(there)
    return found.f_bavail * found.f_frsize


def _replace(path: Path, data: bytes, mode: int, owner: str | tuple[int, int] | None) -> None:
    _make_directory(path.parent, 0o755 if mode & 0o077 else 0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            # Rights first: the content is never readable by more people than it should be.
            os.fchmod(file.fileno(), mode)
            if isinstance(owner, tuple):
                os.fchown(file.fileno(), *owner)
            elif owner is not None:
                user, _, group = owner.partition(":")
                shutil.chown(temporary, user, group or user)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Take a file away for good. Raises OSError."""
    path.unlink()
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_directory(path: Path, mode: int) -> None:
    """Make a directory and what is missing above it; the rights are never the umask's choice."""
    if path.is_dir():
        return
    _make_directory(path.parent, 0o755)
    path.mkdir(mode=mode, exist_ok=True)
    path.chmod(mode)
