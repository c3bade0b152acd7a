"""JSON documents that another user wrote: no link and no size of its choice leads us anywhere."""

from __future__ import annotations

import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib.readings import attempt

MOST_BYTES = 64 << 10


def of_each(directory: Path, name: str) -> dict[str, Any]:
    """Numbered directory to the document of that name in it, null where there is none."""
    numbers = sorted(path.name for path in directory.glob("*") if path.name.isdigit())
    return {number: attempt(partial(document, directory / number / name)) for number in numbers}


def document(path: Path) -> Any:
    """The content, null when the file is not there. Raises OSError or ValueError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is no plain file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
