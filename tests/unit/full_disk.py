"""A real file system of 64 KiB, to be filled and emptied."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILLER = "filler"


@contextmanager
def small(folder: Path) -> Iterator[Path]:
    """A tmpfs in a mount namespace of its own: nobody else sees it, and it goes with its process.

    Its files are reached through the process that holds it.
    """
    mount = f"mount -t tmpfs -o size=64k tmpfs {folder} && echo && exec cat"
    holder = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", mount], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        if not (holder.stdout and holder.stdout.readline()):
            pytest.skip("a file system cannot be mounted here")
        yield Path(f"/proc/{holder.pid}/root{folder}")
    finally:
        holder.communicate()


def fill(folder: Path, but: int = 0) -> None:
    """Leave room for *but* bytes, in whole pages."""
    with open(folder / FILLER, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - but))


def empty(folder: Path) -> None:
    """Give the room back."""
    (folder / FILLER).unlink()
