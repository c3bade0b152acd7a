"""Paths into documents: ``gpus[3].links[7].speed_mbps``, ``units[a.service].active``.

A name in brackets is a key, for those with dots in them; ``[*]`` is every entry of a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

Key = str | int
Path = tuple[Key, ...]
EVERY = "*"
STEP = re.compile(r"""(?:^|\.)([A-Za-z0-9_-]+)|\[["']?([^\[\]"']+)["']?\]""")


class PathError(ValueError):
    """A path that cannot be read, or that leads nowhere; the text says where it ends."""


@cache
def parse(text: str) -> Path:
    """The keys of a path; a whole number in brackets is a list's index."""
    keys: list[Key] = []
    end = 0
    for step in STEP.finditer(text):
        if step.start() != end:
            break
        name, bracketed = step.groups()
        keys.append(int(bracketed) if bracketed and bracketed.isdigit() else name or bracketed)
        end = step.end()
    if end != len(text) or not keys:
        raise PathError(f"{text!r} is no path: it cannot be read from character {end + 1} on")
    return tuple(keys)


def write(path: Path) -> str:
    """The text of a path."""
    plain = [
        f".{key}" if isinstance(key, str) and re.fullmatch(r"[A-Za-z0-9_-]+", key) else f"[{key}]"
        for key in path
    ]
    return "".join(plain).removeprefix(".")


def matching(document: Any, pattern: Path) -> list[Path]:
    """Paths of a pattern that are in the document; PathError where there is none."""
    found: list[Path] = [()]
    for step, key in enumerate(pattern):
        found = [(*path, each) for path in found for each in _keys(at(document, path), key)]
        if not found:
            raise PathError(f"{write(pattern[: step + 1])} is not in the document")
    return found


def _keys(value: Any, key: Key) -> list[Key]:
    """Keys of a value that a step of a pattern stands for."""
    if key == EVERY:
        return list(range(_length(value)))
    if isinstance(value, dict):
        return [key] if key in value else []
    return [key] if isinstance(key, int) and key < _length(value) else []


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def at(document: Any, path: Path) -> Any:
    """The value at a path that is there."""
    for key in path:
        document = document[key]
    return document


def put(document: Any, path: Path, value: Any) -> None:
    """Put a value where the place above is there."""
    at(document, path[:-1])[path[-1]] = value


def remove(document: Any, paths: list[Path]) -> None:
    """Remove values; last ones first, so that the indices of the others stay what they are."""
    ordered = sorted(set(paths), key=lambda path: [(isinstance(k, str), k) for k in path])
    for path in reversed(ordered):
        del at(document, path[:-1])[path[-1]]


def leaves(value: Any, above: Path = ()) -> Iterator[Path]:
    """Every path that ends in a plain value, or in an empty list or object."""
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*above, key))
    else:
        yield above


def general(path: Path) -> Path:
    """The path with every list index as ``[*]``."""
    return tuple(EVERY if isinstance(key, int) else key for key in path)
