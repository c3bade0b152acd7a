"""The node program as one file, always the same bytes: b200kit.node, pynvml and PyYAML.

Both libraries are those that are installed here, in pure Python; requirements/node.txt has the hash
of each of their files, whoever installed them, and of another file there is no program. Tables are
packed as JSON (b200kit/node/lib/tables.py).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from b200kit.node.lib import tables
from b200kit.run.places import LOCKS, PACKAGE

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip file can hold: a fixed one keeps the digest stable."""
MAIN = """import sys

import compiled

compiled.prefer()

from b200kit.node.cli import main

sys.exit(main(sys.argv[1:]))
"""
COMPILED = "b200kit/node/lib/compiled.py"
"""Is there a second time, outside of the package: what the package is imported from, it decides."""


LOCK = LOCKS / "node.txt"


class LibraryRefused(Exception):
    """A library is not installed here as it is locked, in one line."""


def contents() -> dict[str, bytes]:
    """Path in the archive to content: nothing but what the node needs."""
    node = PACKAGE / "node"
    sources = [PACKAGE / "__init__.py", *node.rglob("*.py")]
    files = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in sources}
    for path in node.rglob("*.yaml"):
        table = json.dumps(tables.parse(path.read_text(encoding="utf-8")), ensure_ascii=False)
        files[path.relative_to(PACKAGE.parent).with_suffix(".json").as_posix()] = table.encode()
    own = {"__main__.py": MAIN.encode(), "compiled.py": files[COMPILED]}
    return {**files, **own, **dict(map(locked, lock_lines()))}


def lock_lines() -> list[str]:
    """The lines of the lock, as sha256sum writes and reads them."""
    return [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]


def locked(line: str) -> tuple[str, bytes]:
    """Path in the archive and content of an installed file; LibraryRefused for other content."""
    digest, path = line.split()
    spec = find_spec(path.partition("/")[0].removesuffix(".py"))
    try:
        content = Path(spec.origin or "").with_name(Path(path).name).read_bytes() if spec else b""
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() != digest:
        versions = LOCK.read_text().partition("\n")[0].removeprefix("# ")
        raise LibraryRefused(
            f"{path} is not the one that may go to nodes: install {versions} on this machine"
        )
    return path, content


@cache
def build() -> tuple[bytes, str]:
    """The archive and its SHA-256 in hexadecimal."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(contents().items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, compresslevel=9)
    data = buffer.getvalue()
    return data, hashlib.sha256(data).hexdigest()


def requires(python: str) -> str:
    """A step of sh that ends with one line where there is no such *python*, a word of sh."""
    said = f"b200kit: {python} is not installed"
    return f"command -v {python} >/dev/null || {{ echo {said} >&2; exit 77; }}"
