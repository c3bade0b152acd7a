"""`put`: write files and their pending markers atomically, from one JSON document on stdin.

Prints one line and exits 1 for what the file system refuses; what was written before it stays.

Document: {"files": [{"path", "content" (base64), "mode" (int), "owner" ("user:group"), "notify"
(handlers)}], "markers": [paths]}. All are noted first (node/lib/installed.py), then the markers are
written. stdin, because argv is visible to every process of the node.
"""

from __future__ import annotations

import base64
import contextlib
import sys
from pathlib import Path
from typing import Any

from b200kit.node.lib import compiled, documents, durable_files, installed


def main(args: list[str]) -> int:
    """Read the document, write everything, print the number of files written."""
    del args
    document = documents.request()
    try:
        files = document.get("files", [])
        installed.note_files(files)
        for path in document.get("markers", []):
            durable_files.replace(Path(path), b"", 0o644, "root:root")
        for file in files:
            put(file)
    except (OSError, documents.Malformed) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(f"b200kit: {why}", file=sys.stderr)
        return 1
    print(len(files))
    return 0


def put(file: dict[str, Any]) -> None:
    """Write one file of the document."""
    content = base64.b64decode(file["content"])
    durable_files.replace(Path(file["path"]), content, file["mode"], file["owner"])
    if file["path"] == compiled.INSTALLED:
        # Without it the program is slower, and as good.
        with contextlib.suppress(OSError):
            compiled.make()
