"""`put`: write files and their pending markers atomically, from one JSON document on stdin.

Prints one line and exits 1 for what the file system refuses; what was written before it stays.

Document: {"files": [{"path", "content" (base64), "mode" (int), "owner" ("user:group")}], "markers":
[paths]}. Markers are written first. stdin, because argv is visible to every process of the node.
"""

from __future__ import annotations

import base64
import contextlib
import sys
from pathlib import Path
from typing import Any

from b200kit.node.lib import compiled, documents, durable_files


def main(args: list[str]) -> int:
    """Read the document, write everything, print the number of files written."""
    del args
    document = documents.request()
    try:
        for path in document.get("markers", []):
            durable_files.replace(Path(path), b"", 0o644, "root:root")
        for file in document.get("files", []):
            put(file)
    except OSError as error:
        print(f"b200kit: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(len(document.get("files", [])))
    return 0


def put(file: dict[str, Any]) -> None:
    """Write one file of the document."""
    content = base64.b64decode(file["content"])
    durable_files.replace(Path(file["path"]), content, file["mode"], file["owner"])
    if file["path"] == compiled.INSTALLED:
        # Without it the program is slower, and as good.
        with contextlib.suppress(OSError):
            compiled.make()
