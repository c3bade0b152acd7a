"""The index of a mirror: every other file by size and SHA-256, when it expires. Pure.

    {"schema": "b200kit/mirror/1", "made": "...Z", "expires": "...Z", "for": {...},
     "files": {"wheels/vllm-0.33.0-....whl": {"size": 441, "sha256": "..."}, ...}}

It is signed by the mirror's OpenPGP key (index.json.asc), the one that its packages are signed by.
Nodes don't read it: for them apt's signatures, the lock's hashes and the model's manifest prove the
same bytes. It is for those who carry the mirror.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.readings import short

NAME, SIGNATURE = "index.json", "index.json.asc"
OWN = (NAME, SIGNATURE)
SCHEMA = "b200kit/mirror/1"
_SHA256 = re.compile(r"[0-9a-f]{64}")


class IndexRefused(ValueError):
    """An index that cannot be used, in one line."""


@dataclass(frozen=True)
class Bytes:
    """What a file is."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Index:
    """What a mirror says of itself."""

    made: datetime
    expires: datetime
    described: Mapping[str, Any]
    files: Mapping[str, Bytes]


def written(index: Index) -> bytes:
    """The index's bytes, keys in one order."""
    document = {
        "schema": SCHEMA,
        "made": timestamp.text(index.made),
        "expires": timestamp.text(index.expires),
        "for": dict(index.described),
        "files": {path: asdict(of) for path, of in index.files.items()},
    }
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def parse(raw: bytes) -> Index:
    """The index in *raw*; IndexRefused for any other document, and for paths that climb out."""
    try:
        document = documents.parse(raw, documents.LARGE)
        if document["schema"] != SCHEMA:
            raise IndexRefused(f"{NAME} is of schema {short(document['schema'])}, not {SCHEMA}")
        files = {path: Bytes(of["size"], of["sha256"]) for path, of in document["files"].items()}
        made, expires = (timestamp.parse(document[name]) for name in ("made", "expires"))
        described = dict(document["for"])
    except IndexRefused:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexRefused(f"{NAME} is no index of a mirror: {type(error).__name__}") from None
    for path, of in files.items():
        _check(path, of)
    return Index(made, expires, described, files)


def _check(path: str, of: Bytes) -> None:
    if {"", ".", ".."} & {*path.split("/")} or "\0" in path:
        raise IndexRefused(f"{NAME} names a path outside the mirror: {path!r}")
    if path in OWN:
        raise IndexRefused(f"{NAME} names {path}, which it cannot prove")
    sound = isinstance(of.size, int) and not isinstance(of.size, bool) and of.size >= 0
    if not sound or not isinstance(of.sha256, str) or not _SHA256.fullmatch(of.sha256):
        raise IndexRefused(f"{NAME} has no size and SHA-256 of {path}")


def expired(index: Index, now: datetime) -> str:
    """Why its time is over or has not begun; empty while it is good."""
    if now >= index.expires:
        return f"{NAME} expired on {index.expires:%Y-%m-%d}: build the mirror again"
    # Clocks differ by some minutes.
    if index.made > now + timedelta(hours=1):
        return f"{NAME} is of {timestamp.text(index.made)}, which is yet to come: check the clock"
    return ""


def is_fresh(index: Index, now: datetime) -> bool:
    """Whether more than a third of its time is left, so that it need not be signed again."""
    return index.expires - now > (index.expires - index.made) / 3


@dataclass(frozen=True)
class Difference:
    """What another index adds, removes, and has with other bytes, by path."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def difference(old: Index, new: Index) -> Difference:
    """What has to come and go for *old* to become *new*."""
    both = old.files.keys() & new.files.keys()
    return Difference(
        added=tuple(sorted(new.files.keys() - old.files.keys())),
        removed=tuple(sorted(old.files.keys() - new.files.keys())),
        changed=tuple(sorted(path for path in both if old.files[path] != new.files[path])),
    )
