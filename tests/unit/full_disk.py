"""A real file system of 64 KiB, to be filled and emptied."""

from __future__ import annotations

import ctypes
import os
import subprocess
import traceback
from collections.abc import Callable, Iterator
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


def alone_with(folder: Path, act: Callable[[Path], str]) -> str:
    """Run *act* in a process that has a small file system there, under the name of the folder.

    For programs that follow links themselves, as SQLite does.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            private = ctypes.CDLL(None).unshare(0x20000) == 0  # CLONE_NEWNS
            steps = (
                ["--make-rprivate", "/"],
                ["-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
            )
            if not private or any(subprocess.call(["mount", *step]) for step in steps):
                code = 77
            else:
                os.write(write, act(folder).encode())
                code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    if code == 77:
        pytest.skip("a file system cannot be mounted here")
    assert code == 0
    return said
