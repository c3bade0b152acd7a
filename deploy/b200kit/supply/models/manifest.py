"""The writer of manifests: what a model is made of, in one canonical form. Pure.

b200kit/node/weights/manifest.py reads them. The revision is the SHA-256 of the bytes, so the same
files of the same origin always have the same revision.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from b200kit.catalog.types import Model
from b200kit.node.lib import documents
from b200kit.node.weights.manifest import Manifest, ManifestFile

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Origin:
    """Where a model came from on the Hub: a commit, as a branch may move."""

    repository: str
    commit: str

    @property
    def below(self) -> str:
        """Where the Hub serves its files, from the endpoint on."""
        return f"{self.repository}/resolve/{self.commit}"


def origin(word: str) -> Origin:
    """The origin that REPO@COMMIT names; ValueError, in one line, for anything else."""
    repository, _, commit = word.partition("@")
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"{word} is no REPO@COMMIT")
    if not _COMMIT.fullmatch(commit):
        raise ValueError(f'{repository}: "{commit}" is no commit, which has 40 hexadecimal digits')
    return Origin(repository, commit)


def written(entries: Iterable[ManifestFile], of: Origin | None = None) -> bytes:
    """The manifest's bytes: files by path, keys in one order."""
    files = [asdict(entry) for entry in sorted(entries, key=lambda entry: entry.path)]
    document: dict[str, Any] = {"origin": asdict(of)} if of else {}
    return (json.dumps(document | {"files": files}, indent=1, sort_keys=True) + "\n").encode()


def revision(raw: bytes) -> str:
    """The revision that an inventory pins."""
    return hashlib.sha256(raw).hexdigest()


def origin_of(raw: bytes) -> Origin | None:
    """Where a manifest says that its files are from; None where it says nothing usable."""
    try:
        said = documents.decode(Manifest, raw).origin or {}
        return origin(f"{said['repository']}@{said['commit']}")
    except (ValueError, KeyError):
        return None


def pin_command(name: str, model: Model | None, folder: object) -> str:
    """The command that makes a model's manifest, of the repository that the catalogue knows."""
    return f"b200 model pin {repository('', model)} --to {folder} --name {name}"


def repository(word: str, model: Model | None) -> str:
    """REPO@COMMIT of a model: as it was named, or as the catalogue knows it."""
    if "@" in word:
        return word
    if model and "/" in model.source and " " not in model.source:
        return f"{model.source}@{model.revision}" if model.revision else model.source
    return word if "/" in word else "REPO@COMMIT"
