"""One node's observation, in a file of any form that b200kit writes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents

# What is in an archive, unpacked: an observation has at most 4 MiB (run/look.py), a tar header
# 512 bytes.
_MOST_BYTES = 16 << 20
_MOST_OBSERVED = 4 << 20
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class ObservedNode:
    """A node as it was recorded: its observation as the file has it, and what it was judged by."""

    name: str
    state: Any
    expectation: Any = None


def read(path: str) -> ObservedNode:
    """The node in a bare observation, a node's file of a run (.json.gz), an archive of `b200
    bundle`, or what `--json` of check or judge printed. Raises OSError and ValueError.
    """
    stem = Path(path).name.partition(".")[0]
    content = documents.content(path)
    if packed := _archived(path, content):
        return ObservedNode(stem, *packed)
    document = _document(path, content)
    hosts = document.get("hosts") if isinstance(document, dict) else None
    if isinstance(hosts, Mapping):
        seen = {name: host for name, host in hosts.items() if _observed(host)}
        if len(seen) != 1:
            raise ValueError(f"{path} has {', '.join(seen) or 'no observation'}, not one node's")
        [(stem, document)] = seen.items()
    if not _observed(document):
        return ObservedNode(stem, document)
    return ObservedNode(stem, document["state"], document.get("expectation"))


def document_of(path: str) -> Any:
    """A JSON file, packed by gzip or not. Raises OSError and ValueError."""
    return _document(path, documents.content(path))


def _document(path: str, content: bytes) -> Any:
    try:
        if content.startswith(_GZIP):
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(documents.LARGE + 1)
        return documents.parse(content, documents.LARGE)
    except (documents.Malformed, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: {error}") from None


def _observed(document: object) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("state"), Mapping)


def _archived(path: str, content: bytes) -> tuple[Any, Any] | None:
    """State and expectation of an archive; None for a document. Raises ValueError."""
    if not content.startswith(_GZIP):
        return None
    try:
        # Unpacked first: a tar header may itself be of any length.
        unpacked = gzip.GzipFile(fileobj=io.BytesIO(content)).read(_MOST_BYTES + 1)
        if len(unpacked) > _MOST_BYTES:
            raise KeyError(f"it unpacks to more than {_MOST_BYTES} bytes")
        if unpacked.startswith(b"{"):
            return None
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
            state, expectation = (_member(tar, name) for name in ("state", "expectation"))
    except (tarfile.TarError, EOFError, zlib.error, OSError, KeyError, ValueError) as error:
        said = error.args[0] if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is no bundle: {said}") from None
    return state, expectation


def _member(tar: tarfile.TarFile, name: str) -> Any:
    """One document; nothing is unpacked to the disk."""
    entry = tar.getmember(f"{name}.json")
    # A link may lead to itself; a file with holes has as many bytes as its header says.
    stream = tar.extractfile(entry) if entry.isreg() else None
    if stream is None:
        raise KeyError(f"{name}.json is no file of a bundle")
    return documents.parse(stream.read(_MOST_OBSERVED + 1), _MOST_OBSERVED)
