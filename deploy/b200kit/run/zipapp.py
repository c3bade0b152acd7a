"""The node program as one file, always the same bytes: b200kit.node, pynvml and PyYAML.

Both libraries are those that are installed here, pure Python, and locked by the controller's own
requirements. Tables are packed as JSON (b200kit/node/lib/tables.py).
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
from b200kit.run.places import PACKAGE

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


class MissingLibrary(RuntimeError):
    """A library is not installed where the program is built."""


def contents() -> dict[str, bytes]:
    """Path in the archive to content: nothing but what the node needs."""
    node = PACKAGE / "node"
    sources = [PACKAGE / "__init__.py", *node.rglob("*.py"), *node.rglob("*.schema.json")]
    files = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in sources}
    for path in node.rglob("*.yaml"):
        table = json.dumps(tables.parse(path.read_text(encoding="utf-8")), ensure_ascii=False)
        files[path.relative_to(PACKAGE.parent).with_suffix(".json").as_posix()] = table.encode()
    library = installed("yaml").parent
    files |= {f"yaml/{path.name}": path.read_bytes() for path in library.glob("*.py")}
    own = {"__main__.py": MAIN.encode(), "compiled.py": files[COMPILED]}
    return {**files, **own, "pynvml.py": installed("pynvml").read_bytes()}


def installed(name: str) -> Path:
    """The source of an installed library."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise MissingLibrary(f"{name} is not installed; install this project's requirements")
    return Path(spec.origin)


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
