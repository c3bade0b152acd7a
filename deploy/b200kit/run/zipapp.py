"""The node program as one file: b200kit.node and nvidia-ml-py's pynvml, always the same bytes."""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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
    """nvidia-ml-py is not installed where the program is built."""


def contents() -> dict[str, bytes]:
    """Path in the archive to content: nothing but what the node needs."""
    node = PACKAGE / "node"
    data = (*node.rglob("*.schema.json"), *node.rglob("*.yaml"))
    sources = [PACKAGE / "__init__.py", *node.rglob("*.py"), *data]
    files = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in sources}
    own = {"__main__.py": MAIN.encode(), "compiled.py": files[COMPILED]}
    return {**files, **own, "pynvml.py": pynvml().read_bytes()}


def pynvml() -> Path:
    """The source of the installed nvidia-ml-py."""
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise MissingLibrary("nvidia-ml-py is not installed; install this project's requirements")
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
