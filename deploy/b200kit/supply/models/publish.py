"""Into a model store: STORE/NAME/REVISION/, whole or not at all.

Files come into REVISION.building beside it by the nodes' own downloader, so a run that was killed
is finished by the next one; the folder gets its name when everything is there and was checked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from b200kit.node.lib import durable_files
from b200kit.node.weights import download
from b200kit.node.weights.download import FetchError, Job, Manners
from b200kit.node.weights.fetch import only
from b200kit.node.weights.manifest import NAME, ManifestFile, size_text
from b200kit.node.weights.source import FileSource
from b200kit.supply.models.manifest import revision
from b200kit.supply.program import SupplyRefused

_PARALLEL = 4
Say = Callable[[str], None]


def is_there(target: Path, raw: bytes, entries: Sequence[ManifestFile]) -> bool:
    """Whether a revision was published whole; sizes are compared, bytes are not read again."""
    try:
        sizes = {each.path: (target / each.path).stat().st_size for each in entries}
        return (target / NAME).read_bytes() == raw and all(
            sizes[each.path] == each.size for each in entries
        )
    except OSError:
        return False


def building(store: Path, name: str, raw: bytes) -> Path:
    """Where the files of a revision come together."""
    return store / name / f"{revision(raw)}.building"


def fetch(
    folder: Path,
    entries: Sequence[ManifestFile],
    source: Callable[[ManifestFile], FileSource],
    say: Say,
) -> None:
    """Bring every file into *folder*, proven by its hash; what is there already stays.

    *source* says where a file is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = only(folder)
        try:
            _bring_all(folder, entries, source, say)
        finally:
            os.close(lock)
    except FetchError as error:
        raise SupplyRefused(str(error)) from None


def _bring_all(
    folder: Path,
    entries: Sequence[ManifestFile],
    source: Callable[[ManifestFile], FileSource],
    say: Say,
) -> None:
    left = [each for each in entries if not _is_right(folder / each.path, each)]
    download.require_space(folder, left)
    done = len(entries) - len(left)

    def bring(each: ManifestFile) -> ManifestFile:
        download.bring(Job(each, folder / each.path, [source(each)], Manners(), lambda _: None))
        return each

    with ThreadPoolExecutor(_PARALLEL) as pool:
        try:
            for number, each in enumerate(pool.map(bring, left), done + 1):
                say(f"{each.path}: {size_text(each.size)}, {number} of {len(entries)}")
        except FetchError:
            pool.shutdown(cancel_futures=True)
            raise


def _is_right(path: Path, entry: ManifestFile) -> bool:
    there = path.is_file() and path.stat().st_size == entry.size
    return there and download.sha256(path) == entry.sha256


def place(folder: Path, raw: bytes, entries: Sequence[ManifestFile]) -> Path:
    """Give the folder its name; what does not belong to the model is removed from it before."""
    named = {each.path for each in entries}
    for path in [each for each in folder.rglob("*") if not each.is_dir()]:
        if path.relative_to(folder).as_posix() not in named:
            path.unlink()
    durable_files.replace(folder / NAME, raw.decode(), 0o444)
    target = folder.with_name(revision(raw))
    if target.exists():
        # Damaged, else nothing would have been fetched.
        shutil.rmtree(target)
    os.replace(folder, target)
    durable_files.sync_directory(target.parent)
    return target
