"""One node's observation, in a file of any form that b200kit writes."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.records import archive


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
    if packed := archive.read(path):
        return ObservedNode(stem, *packed)
    document = document_of(path)
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
    try:
        with open(path, "rb") as stream:
            is_packed = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            # One byte more than is read of a document: a longer one is refused as it is.
            read = gzip.GzipFile(fileobj=stream).read if is_packed else stream.read
            return documents.parse(read(documents.LARGE + 1), documents.LARGE)
    except (documents.Malformed, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: {error}") from None


def _observed(document: object) -> bool:
    return isinstance(document, Mapping) and isinstance(document.get("state"), Mapping)
