"""A carried mirror held against its signed index: every byte, and nothing besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from b200kit.node.weights.download import sha256
from b200kit.supply.mirror import index, signature
from b200kit.supply.mirror.index import Bytes, Index, IndexRefused

_PARALLEL = 4
Progress = Callable[[int, int], None]


def trusted(root: Path, key: Path) -> Index:
    """The index of a directory, if *key* signed it and its time is not over; else IndexRefused."""
    file, signed = root / index.NAME, root / index.SIGNATURE
    for each in (file, signed):
        if each.is_symlink() or not each.is_file():
            raise IndexRefused(f"{each} is not there")
    try:
        signature.require(file, signed, key)
    except signature.SignatureRefused as error:
        raise IndexRefused(str(error)) from None
    found = index.parse(file.read_bytes())
    if over := index.expired(found, datetime.now(UTC)):
        raise IndexRefused(over)
    return found


def problems(root: Path, of: Index, progress: Progress) -> Iterator[str]:
    """What is not as the index says, one line each; all bytes are read."""
    yield from strangers(root, of.files)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        found = pool.map(partial(_wrong, root), of.files, of.files.values())
        for number, line in enumerate(found, 1):
            progress(number, len(of.files))
            if line:
                yield line


def strangers(root: Path, files: Mapping[str, Bytes]) -> Iterator[str]:
    """Files that the index does not name, and links, which lead elsewhere."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            yield f"{name}: a link, where only files belong"
        elif not path.is_dir() and name not in files and name not in index.OWN:
            yield f"{name}: one too many, the index does not name it"


def _wrong(root: Path, name: str, of: Bytes) -> str:
    path = root / name
    if path.is_symlink():
        return ""
    if not path.is_file():
        return f"{name}: missing"
    size = path.stat().st_size
    if size != of.size:
        return f"{name}: {size} bytes, the index says {of.size}"
    return "" if sha256(path) == of.sha256 else f"{name}: another content than the index names"
