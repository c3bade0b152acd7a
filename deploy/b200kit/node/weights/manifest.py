"""A model's manifest: its files with size and SHA-256, itself named by its hash. Pure.

    {"files": [{"path": "model-00001-of-00030.safetensors", "size": 4976698672, "sha256": "..."}]}

The revision in the inventory is the manifest's own SHA-256. Whoever served the
manifest, and whoever serves the files, is therefore of no consequence: what is not what was pinned
is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from b200kit.node.lib import documents
from b200kit.node.lib.documents import Pattern, Range

NAME = "manifest.json"
STAMP = ".complete"
RECORD = ".verified.json"
"""In a model's directory: path to [size, mtime in ns] of each file whose hash was proven."""
PARTIAL = ".partial"
OURS = (NAME, STAMP, RECORD)


class ManifestError(ValueError):
    """The manifest is not the one asked for, or cannot be used; one line."""


@dataclass(frozen=True)
class ManifestFile:
    """One file of a model: relative path, size in bytes, SHA-256 in hexadecimal."""

    path: str
    size: Annotated[int, Range(0)]
    sha256: Annotated[str, Pattern(r"[0-9a-f]{64}")]


@dataclass(frozen=True)
class Manifest:
    """The document. *origin*: the repository and commit that the files are from, if it is said."""

    most_bytes: ClassVar[int] = documents.LARGE

    files: tuple[ManifestFile, ...]
    origin: dict[str, str] | None = None


def parse(raw: bytes, revision: str) -> tuple[ManifestFile, ...]:
    """The files of the manifest whose SHA-256 is *revision*, in its order.

    Raises ManifestError for any other manifest, for one that lists no files, and for names that lie
    outside the model or are the toolkit's own.
    """
    digest = hashlib.sha256(raw).hexdigest()
    if digest != revision:
        raise ManifestError(f"manifest is {digest[:12]}, asked for {revision[:12]}")
    entries = _listed(raw)
    for entry in entries:
        _check(entry)
    paths = [entry.path for entry in entries]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice:
        raise ManifestError(f"manifest names {twice} twice")
    return entries


def _listed(raw: bytes) -> tuple[ManifestFile, ...]:
    try:
        return documents.decode(Manifest, raw).files
    except documents.Malformed as error:
        raise ManifestError(f"{NAME}: {error}") from None


def _check(entry: ManifestFile) -> None:
    if not entry.path or "\0" in entry.path:
        raise ManifestError("manifest names a file without a name")
    if {"", ".", ".."} & {*entry.path.split("/")}:
        raise ManifestError(f"manifest names a path outside the model: {entry.path}")
    if entry.path in OURS or entry.path.endswith(PARTIAL):
        raise ManifestError(f"manifest names {entry.path}, which is the toolkit's own")


def strangers(names: Iterable[str], entries: Sequence[ManifestFile]) -> list[str]:
    """Names in a model's directory that neither manifest nor toolkit put there.

    A loader may take up any file of the directory, code among them, so none may lie there unproven.
    """
    known = {entry.path for entry in entries} | {*OURS}
    return sorted(name for name in names if name not in known)


def wrong(
    entries: Sequence[ManifestFile],
    record: Mapping[str, Any],
    observed: Mapping[str, tuple[int, int]],
) -> dict[str, str]:
    """File to what is wrong with it, found without reading it: against the record of its proof.

    *observed* is name to (size, mtime in ns) of all there is in the directory.
    """
    found: dict[str, str] = {}
    for entry in entries:
        here = observed.get(entry.path)
        if here is None:
            found[entry.path] = "missing"
        elif here[0] != entry.size:
            found[entry.path] = f"{here[0]} bytes, the manifest says {entry.size}"
        elif record.get(entry.path) != [*here]:
            found[entry.path] = "changed since it was proven"
    found.update(dict.fromkeys(strangers(observed, entries), "not in the manifest"))
    return found


def size_text(count: int) -> str:
    """Bytes as a person reads them: "141.2 GB"."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"
