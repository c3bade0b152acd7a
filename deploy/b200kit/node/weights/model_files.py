"""A model's directory on the node: what lies in it, what of it was proven, and its last stamp.

Everything a proof rests on lies beside the files: the manifest, whose hash is the revision; the
record of what was hashed, with size and time of change; and the stamp, written last of all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents, durable_files
from b200kit.node.weights.download import CORRUPT, sha256
from b200kit.node.weights.manifest import (
    NAME,
    PARTIAL,
    RECORD,
    STAMP,
    ManifestFile,
    parse,
    strangers,
)

READ_ONLY_DIRECTORY, WRITABLE_DIRECTORY = 0o555, 0o755


def observed(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file below a directory by relative name: (size, mtime in ns). Links count as files."""
    found = {}
    for path in _files(directory):
        status = path.lstat()
        found[path.relative_to(directory).as_posix()] = (status.st_size, status.st_mtime_ns)
    return found


def _files(directory: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(directory):
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        yield from (Path(root, name) for name in [*names, *links])


def manifest(directory: Path, revision: str) -> tuple[ManifestFile, ...]:
    """The manifest kept with the model; OSError without one, ManifestError when it is another."""
    return parse((directory / NAME).read_bytes(), revision)


def record(directory: Path) -> dict[str, Any]:
    """Path to [size, mtime in ns] of the files whose hash was proven; {} without a record."""
    try:
        found = documents.read(directory / RECORD, documents.LARGE)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep_record(directory: Path, proven: dict[str, Any]) -> None:
    """Write the record whole."""
    durable_files.replace(directory / RECORD, json.dumps(proven, sort_keys=True))


def open_up(directory: Path) -> None:
    """Let files be written into a model's directory; before the first byte of any of them."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / STAMP).unlink(missing_ok=True)
    _chmod_directories(directory, WRITABLE_DIRECTORY)


def seal(directory: Path, raw: bytes, entries: Sequence[ManifestFile], revision: str) -> list[str]:
    """Remove what is not the model's, make all read-only, stamp; returns what was removed."""
    removed = strangers(observed(directory), entries)
    for name in removed:
        (directory / name).unlink()
    (directory / NAME).unlink(missing_ok=True)
    durable_files.replace(directory / NAME, raw.decode("utf-8"), 0o444)
    durable_files.replace(directory / STAMP, revision, 0o444)
    _chmod_directories(directory, READ_ONLY_DIRECTORY)
    return [name for name in removed if not name.endswith(PARTIAL)]


def _chmod_directories(directory: Path, mode: int) -> None:
    for root, folders, _ in os.walk(directory):
        for name in folders:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, mode)
    os.chmod(directory, mode)


def rehash(directory: Path, entries: Sequence[ManifestFile], parallel: int) -> dict[str, str]:
    """File to what is wrong with it, by reading every byte of every file."""

    def wrong(entry: ManifestFile) -> str:
        path = directory / entry.path
        try:
            return "" if sha256(path) == entry.sha256 else CORRUPT
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    with ThreadPoolExecutor(parallel) as pool:
        found = dict(zip([e.path for e in entries], pool.map(wrong, entries), strict=True))
    return {path: why for path, why in found.items() if why}


def unnamed(directory: Path, entries: Sequence[ManifestFile]) -> dict[str, str]:
    """Files that lie there and are no part of the model."""
    return dict.fromkeys(strangers(observed(directory), entries), "not in the manifest")
