"""A file to lock, root's alone.

flock asks for no right but to open: who may read a lock, or a folder that is one, can hold it for
ever. So none is a name in a folder that others write to, nor a file or folder that they read.
"""

from __future__ import annotations

import os
from pathlib import Path


def opened(path: Path) -> int:
    """The file, made where it is missing; it is locked until its descriptor is closed."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
