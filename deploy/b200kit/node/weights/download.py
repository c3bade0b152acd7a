"""One file of a model: resumed where it was left, proven, and put in place read-only.

A partial file keeps what arrived, whoever is killed; its hash is computed from its bytes again, as
no state of SHA-256 can be kept. What is whole and not as the manifest names it is thrown away and
fetched from the next source, and the error names the file and who served it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from b200kit.node.lib import durable_files
from b200kit.node.weights.manifest import PARTIAL, ManifestFile, size_text
from b200kit.node.weights.source import FileAnswer, FileSource, SourceError

CHUNK = 1 << 20
READ_ONLY = 0o444
CORRUPT = "content is not what the manifest names"


class FetchError(Exception):
    """What could not be fetched or proven, in one line; *final*: trying again cannot help."""

    def __init__(self, text: str, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


@dataclass(frozen=True)
class Manners:
    """How a source is asked: tries without a new byte, the first pause, the least bytes/s."""

    tries: int = 4
    pause_s: float = 1.0
    slowest: float = 10_000.0
    window_s: float = 60.0


@dataclass(frozen=True)
class Job:
    """A file to bring, from whom, and whom to report how many bytes came."""

    entry: ManifestFile
    target: Path
    sources: Sequence[FileSource]
    manners: Manners
    arrived: Callable[[int], None]


def bring(job: Job) -> FileSource | None:
    """Put the file in place; the source that completed it, None where its bytes were there.

    Raises FetchError with the error of each source.
    """
    job.target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(job)
    if partial.exists() and _size(partial) == job.entry.size and _prove(job, _digest(partial)):
        return None
    errors: list[SourceError] = []
    for source in job.sources:
        try:
            if source.gone:
                raise SourceError(source.gone, again=True)
            _from(job, source)
        except SourceError as error:
            errors.append(error)
            # The last one is asked for every file: there is nobody else.
            if error.gone and source is not job.sources[-1]:
                source.gone = str(error)
            continue
        return source
    raise refusal(errors, f"{job.entry.path}: ")


def refusal(errors: Sequence[SourceError], of: str = "") -> FetchError:
    """The error of every source, in one line; final when no other try of any of them can help."""
    message = "; ".join(dict.fromkeys(map(str, errors))) or "no source is given"
    return FetchError(of + message, final=not any(error.again for error in errors))


def begun(folder: Path, entry: ManifestFile) -> int:
    """Bytes of a file that are there already, in part; a wrong whole one is written over."""
    size = _size(folder / f"{entry.path}{PARTIAL}")
    return size if size <= entry.size else 0


def require_space(folder: Path, left: Sequence[ManifestFile]) -> None:
    """Raise FetchError where what is left to come has no room."""
    needed = sum(entry.size - begun(folder, entry) for entry in left)
    free = shutil.disk_usage(folder).free
    if needed > free:
        shortage = f"{needed} bytes to fetch, {free} free under {folder}: {needed - free} missing"
        raise FetchError(f"no disk space: {shortage} ({size_text(needed - free)})", final=True)


def _from(job: Job, source: FileSource) -> None:
    """Bring the whole file from one source, going on where a try broke off."""
    tries, mixed = 0, _size(_partial(job)) > 0
    while True:
        before = _size(_partial(job))
        try:
            if _prove(job, _receive(job, source)):
                return
        except SourceError as error:
            tries = 0 if _size(_partial(job)) > before else tries + 1
            if not error.again or tries >= job.manners.tries:
                raise
            time.sleep(job.manners.pause_s * 2 ** max(tries - 1, 0))
            continue
        # Bytes of an earlier source may be to blame; what came whole from this one is its own.
        if not mixed:
            raise SourceError(f"{source.url}: {CORRUPT}")
        mixed = False


def _receive(job: Job, source: FileSource) -> Any:
    """Append the rest to the partial file; the SHA-256 of it all. SourceError when cut short."""
    partial, entry = _partial(job), job.entry
    if _size(partial) >= entry.size:
        partial.unlink(missing_ok=True)
    answer = source.open(entry.path, _size(partial))
    try:
        if answer.size is not None and answer.size != entry.size:
            message = f"{answer.url}: it has {answer.size} bytes, the manifest says {entry.size}"
            raise SourceError(message)
        if answer.offset == 0 and partial.exists():
            # It cannot go on from the middle: all of it comes again.
            job.arrived(-_size(partial))
            partial.unlink()
        return _append(job, answer, partial)
    finally:
        answer.close()


def _append(job: Job, answer: FileAnswer, partial: Path) -> Any:
    digest = _digest(partial) if partial.exists() else hashlib.sha256()
    have, since, at_since = _size(partial), time.monotonic(), _size(partial)
    with partial.open("ab", buffering=0) as out:
        while have < job.entry.size and (chunk := answer.read(CHUNK)):
            if have + len(chunk) > job.entry.size:
                partial.unlink()
                job.arrived(-have)
                message = f"more than the {job.entry.size} bytes of the manifest"
                raise SourceError(f"{answer.url}: {message}")
            _write(out, chunk, partial)
            digest.update(chunk)
            have += len(chunk)
            job.arrived(len(chunk))
            if (seconds := time.monotonic() - since) > job.manners.window_s:
                _require_pace(answer, have - at_since, seconds, job.manners.slowest)
                since, at_since = time.monotonic(), have
        os.fsync(out.fileno())
    if have < job.entry.size:
        message = f"cut short at {have} of {job.entry.size} bytes"
        raise SourceError(f"{answer.url}: {message}", again=True)
    return digest


def _require_pace(answer: FileAnswer, got: int, seconds: float, slowest: float) -> None:
    if got < slowest * seconds:
        message = f"too slow, {got} bytes in {seconds:.0f} s"
        raise SourceError(f"{answer.url}: {message}", again=True)


def _write(out: Any, chunk: bytes, path: Path) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[out.write(view) :]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = f"no disk space: the file system filled up while {path.name} was written"
            raise FetchError(message, final=True) from None
        raise


def _prove(job: Job, digest: Any) -> bool:
    """Put the partial file in place if it is right; throw it away if not."""
    partial = _partial(job)
    if digest.hexdigest() != job.entry.sha256:
        job.arrived(-_size(partial))
        partial.unlink(missing_ok=True)
        return False
    partial.chmod(READ_ONLY)
    os.replace(partial, job.target)
    durable_files.sync_directory(job.target.parent)
    return True


def _partial(job: Job) -> Path:
    return job.target.with_name(job.target.name + PARTIAL)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _digest(path: Path) -> Any:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return str(_digest(path).hexdigest())
