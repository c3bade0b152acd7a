"""`put`: write files and their pending markers atomically, from one JSON document on stdin.

Document: {"files": [{"path", "content" (base64), "mode" (int), "owner" ("user:group")}], "markers":
[paths]}. Markers are written first, each file is written beside its target, synced and renamed, so
a cut connection leaves either the old file or the new one. stdin, because argv is visible to every
process of the node.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(args: list[str]) -> int:
    """Read the document, write everything, print the number of files written."""
    del args
    document = json.load(sys.stdin)
    for path in document.get("markers", []):
        write(Path(path), b"", 0o644, "root:root")
    for file in document.get("files", []):
        put(file)
    print(len(document.get("files", [])))
    return 0


def put(file: dict[str, Any]) -> None:
    """Write one file of the document."""
    write(Path(file["path"]), base64.b64decode(file["content"]), file["mode"], file["owner"])


def write(path: Path, content: bytes, mode: int, owner: str) -> None:
    """Replace *path* in one step; a new directory is 0755, or 0700 above a root-only file."""
    _make_directory(path.parent, 0o755 if mode & 0o077 else 0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            # Rights first: the content is never readable by more people than asked.
            user, _, group = owner.partition(":")
            os.fchmod(file.fileno(), mode)
            shutil.chown(temporary, user, group or user)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _make_directory(path: Path, mode: int) -> None:
    """Make a directory and what is missing above it; the rights are never the umask's choice."""
    if path.is_dir():
        return
    _make_directory(path.parent, 0o755)
    path.mkdir(mode=mode, exist_ok=True)
    path.chmod(mode)
