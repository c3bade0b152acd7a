"""An archive that a node prints: a tar.gz in base64, and after it a line of JSON with its SHA-256.

It is read as a stream, within limits: a broken node must not fill the controller.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any

from b200kit.node.lib import documents

BROKEN = (EOFError, OSError, ValueError, tarfile.TarError, zlib.error)
"""What reading one may raise."""


def printed_bytes(packed: int) -> int:
    """What an archive of so many bytes takes when it is printed, its description included."""
    return packed * 4 // 3 + (1 << 20)


def received(output: str) -> tuple[bytes, dict[str, Any]]:
    """The archive that a node printed, and its description. Raises ValueError."""
    body, _, last = output.rstrip("\n").rpartition("\n")
    try:
        description, content = documents.parse(last), base64.b64decode(body)
        digest = description.get("sha256")
    except (AttributeError, ValueError):
        raise ValueError("the answer is no archive") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("the archive was damaged on its way")
    return content, description


def files(content: bytes, most_bytes: int, most_files: int) -> Iterator[tuple[str, Any]]:
    """Each file by its name below the archive's one folder; all else in it raises one of BROKEN."""
    names = set[str]()
    unpacked: Any = _Limited(gzip.GzipFile(fileobj=io.BytesIO(content)), most_bytes)
    with tarfile.open(fileobj=unpacked, mode="r|") as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            file: Any = archive.extractfile(member) if member.isreg() else None
            # A sparse file has as many bytes as it says, with none of them in the archive.
            if file is None or member.issparse() or name in names or len(names) >= most_files:
                raise ValueError(f"{name or member.name} is no file of such an archive")
            names.add(name)
            yield name, file


class _Limited:
    """What unpacks to no more than an archive may have."""

    def __init__(self, unpacked: gzip.GzipFile, most: int) -> None:
        self.unpacked, self.most, self.left = unpacked, most, most

    def read(self, size: int) -> bytes:
        """The next bytes."""
        piece = self.unpacked.read(size)
        self.left -= len(piece)
        if self.left < 0:
            raise ValueError(f"it unpacks to more than {self.most} bytes")
        return piece
