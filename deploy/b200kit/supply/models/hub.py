"""The Hub, by huggingface_hub: which files a commit has, and who may read them.

Endpoint and token are that library's own (HF_ENDPOINT; HF_TOKEN or a login). Files themselves come
by the downloader that nodes use (b200kit/node/weights): it resumes a file after a kill, which
huggingface_hub 2.4 does not, and proves it by the SHA-256 that the Hub names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from typing import Any

from b200kit.inventory.keys.weights import is_plain
from b200kit.node.weights.manifest import ManifestFile
from b200kit.node.weights.source import FileSource, SourceError, insist
from b200kit.supply.models.manifest import Origin
from b200kit.supply.program import SupplyRefused

_TIMEOUT_S = 60.0
_TRIES, _PAUSE_S = 4, 1.0


def _library() -> Any:
    # Its parts are loaded one by one, and only by what asks the Hub: they take a second of CPU.
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.hf_api

    return huggingface_hub


def endpoint() -> str:
    """The Hub's base URL, as huggingface_hub has it."""
    return str(_library().constants.ENDPOINT)


def source(origin: Origin) -> FileSource:
    """Where the files of a commit are, with the token that huggingface_hub finds."""
    base, token = endpoint(), _library().get_token()
    if token and is_plain(base):
        raise SupplyRefused(f"the token would be sent in plain text to {base}: use https://")
    return FileSource(f"{base}/{origin.below}", token, _TIMEOUT_S)


def terms(repository: str) -> str:
    """Where an account accepts a repository's terms."""
    return f"{endpoint()}/{repository}"


def pinned(word: str) -> str:
    """REPO@COMMIT; for REPO alone, the commit at which it stands now. Raises SupplyRefused."""
    if "@" in word:
        return word
    library = _library()
    try:
        return f"{word}@{library.HfApi().model_info(word, timeout=_TIMEOUT_S).sha}"
    except Exception as error:
        raise SupplyRefused(_why(library, Origin(word, "main"), error)) from None


def is_gated(word: str) -> bool:
    """Whether the Hub says of ORG/NAME[@COMMIT] that an account must accept its terms first.

    Anybody may ask that. False where it does not answer: whoever fetches is told then.
    """
    repository, _, commit = word.partition("@")
    api = _library().HfApi()
    try:
        info = api.model_info(repository, revision=commit or None, timeout=_TIMEOUT_S)
    except Exception:
        # Of whichever HTTP library it has. Nothing is decided by this but a hint: a gated model is
        # refused by name when its files are asked for.
        return False
    return bool(info.gated)


def entries(
    origin: Origin, of: FileSource, wanted: Callable[[list[str]], Collection[str]]
) -> list[ManifestFile]:
    """The files of a commit that are *wanted* of all, each with the SHA-256 that the Hub has of it.

    It has none of a file that git itself keeps: those are small, are read, and are held against
    git's own hash.
    """
    tree = _tree(origin)
    chosen = wanted([each.path for each in tree])
    return [_entry(each, of) for each in tree if each.path in chosen]


def _tree(origin: Origin) -> list[Any]:
    library = _library()
    api = library.HfApi()
    try:
        at = api.model_info(origin.repository, revision=origin.commit).sha
        # What a commit has may be public where its files are not.
        api.auth_check(origin.repository)
        found = api.list_repo_tree(origin.repository, revision=origin.commit, recursive=True)
        files = [each for each in found if isinstance(each, library.hf_api.RepoFile)]
    except Exception as error:
        raise SupplyRefused(_why(library, origin, error)) from None
    if at != origin.commit:
        raise SupplyRefused(f"{origin.repository}: {origin.commit} is no commit; it stands at {at}")
    return files


def _why(library: Any, origin: Origin, error: Exception) -> str:
    kinds, where = library.errors, f"{origin.repository} on the Hub"
    if isinstance(error, kinds.GatedRepoError):
        return (
            f"{where} is gated: accept its terms at {terms(origin.repository)}, then give a token "
            "of that account (HF_TOKEN)"
        )
    if isinstance(error, kinds.RevisionNotFoundError):
        return f"{where} has no commit {origin.commit}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, kinds.RepositoryNotFoundError) or status in (401, 403):
        return (
            f"{where}: there is none, or no token of an account that may read it was given "
            f"(HF_TOKEN; HTTP {status})"
        )
    said = f"HTTP {status}" if status else f"{type(error).__name__}: {error}".splitlines()[0]
    return f"{where} can't be read: {said}"


def _entry(file: Any, of: FileSource) -> ManifestFile:
    if file.lfs is not None:
        return ManifestFile(file.path, file.lfs.size, file.lfs.sha256)
    content = head(of, file.path, file.size + 1)
    framed = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    if framed.hexdigest() != file.blob_id:
        raise SupplyRefused(f"{file.path}: the Hub serves another content than its commit has")
    return ManifestFile(file.path, len(content), hashlib.sha256(content).hexdigest())


def head(of: FileSource, path: str, count: int) -> bytes:
    """The first bytes of a file; SupplyRefused where they don't come."""

    def ask() -> bytes:
        answer, got = of.open(path), b""
        try:
            while len(got) < count and (more := answer.read(count - len(got))):
                got += more
        finally:
            answer.close()
        return got

    try:
        return insist(ask, _TRIES, _PAUSE_S)
    except SourceError as error:
        raise SupplyRefused(str(error)) from None
