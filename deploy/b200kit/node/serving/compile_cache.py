"""`compile-cache`: the hook before a replica's start, which makes the directory of its caches.

It runs as the engine's own user, in its sandbox: it has the engine's rights only. It makes the
directory of this configuration's key, and removes the keys that were not used for longest. It never
keeps a replica from starting.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from b200kit.node.serving import compile_cache_key as rules
from b200kit.node.serving.compile_cache_key import RECORD


def main(args: list[str]) -> int:
    """`compile-cache --root DIRECTORY --key KEY`; 0 whatever came of it."""
    parser = argparse.ArgumentParser(prog="compile-cache")
    parser.add_argument("--root", type=Path, required=True, help="directory of one replica")
    parser.add_argument("--key", required=True, help="the configuration's")
    parser.add_argument("--keep", type=int, default=rules.KEEP, help="keys that stay")
    options = parser.parse_args(args)
    try:
        prepare(options.root, options.key, options.keep)
    except OSError as error:
        # Without its caches a replica starts slowly, and that is all.
        print(f"caches not prepared: {error}", file=sys.stderr)
    return 0


def prepare(root: Path, key: str, keep: int = rules.KEEP) -> None:
    """Make the key's directory, note its use, remove older keys."""
    here = root / key
    # The engine may write here: a link that it laid must lead nobody anywhere.
    for path in (here, here / RECORD):
        if path.is_symlink():
            path.unlink()
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    (here / RECORD).touch()
    os.utime(here / RECORD)
    for name in rules.surplus(used(root), key, keep):
        shutil.rmtree(root / name)
        print(f"removed the caches of key {name}")


def used(root: Path) -> dict[str, float]:
    """Key to when it was used last; what has no record is older than all."""
    found = {}
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            mark = path / RECORD
            found[path.name] = mark.stat().st_mtime if mark.is_file() else 0.0
    return found
