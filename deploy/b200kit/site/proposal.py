"""What another run of `b200 init` would change: shown as a difference, written only on request."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

from b200kit.node.lib import durable_files


def there(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """The files that are there already; OSError where one cannot be read."""
    found = {name: folder / name for name in files}
    return {name: path.read_text("utf-8") for name, path in found.items() if path.exists()}


def difference(now: Mapping[str, str], files: Mapping[str, str]) -> Iterator[str]:
    """Lines of a unified difference between what is there and what would be."""
    for name, text in files.items():
        if name in now:
            old, new = now[name].splitlines(), text.splitlines()
            yield from difflib.unified_diff(old, new, name, name, lineterm="")


def write(folder: Path, files: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Write the files that differ; returns their names."""
    changed = [name for name, text in files.items() if now.get(name) != text]
    for name in changed:
        durable_files.replace(folder / name, files[name], 0o644)
    return changed
