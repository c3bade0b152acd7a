"""Claims that end with their process: the kernel frees them, whatever any clock says.

A claim is the lock of one byte of a file beside the store, at the number of the line that says who
claims. It is an open-file-description lock (fcntl(2)): two of one process exclude each other, too,
and one of another container on this machine is seen.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_FLOCK = "hhxxxxqqixxxx"
"""struct flock of 64-bit Linux: type, whence, start, length, process."""


def take(path: Path, number: int) -> int:
    """Claim a number until the descriptor returned is closed. Raises OSError where it is taken."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        _fcntl(handle, fcntl.F_OFD_SETLK, number)
    except OSError as error:
        os.close(handle)
        raise OSError(error.errno, error.strerror, str(path)) from None
    return handle


def is_taken(path: Path, number: int) -> bool:
    """Whether a process that still runs has claimed a number."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return _fcntl(handle, fcntl.F_OFD_GETLK, number) != fcntl.F_UNLCK
    finally:
        os.close(handle)


def _fcntl(handle: int, command: int, number: int) -> int:
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    kind: int = struct.unpack(_FLOCK, fcntl.fcntl(handle, command, asked))[0]
    return kind
