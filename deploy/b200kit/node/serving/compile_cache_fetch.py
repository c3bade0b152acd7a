"""`fetch-compile-cache`: bring compile caches packed by another node, by the hash pinned for them.

They are code that the engine runs, so nothing but that hash is trusted; where they fit is decided
when a replica starts (b200kit/node/serving/compile_cache.py).
"""

from __future__ import annotations

import argparse
import http.client
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from b200kit.node.weights.download import FetchError, Job, Manners, bring, refusal
from b200kit.node.weights.manifest import ManifestFile, size_text
from b200kit.node.weights.source import Source, SourceError, insist, sources

MOST_BYTES = 16 << 30
"""Most of a pack; caches of the largest models have a few GB. Nor more than half the free disk."""


def main(args: list[str]) -> int:
    """Fetch one pack; 0 there and proven, 1 with one line otherwise."""
    parser = argparse.ArgumentParser(prog="fetch-compile-cache")
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", help="URL of the store's packs")
    parser.add_argument("--peer", action="append", default=[], help="URL asked before the store")
    parser.add_argument("--token-file", type=Path, help="bearer token, for the store alone")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds without a byte")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before another try")
    options = parser.parse_args(args)
    manners = Manners(pause_s=options.pause, window_s=options.timeout)
    try:
        found = sources(options.url, options.peer, options.token_file, options.timeout)
        size = fetch(options.sha256, options.out, found, manners)
    except (FetchError, OSError, http.client.HTTPException) as error:
        print(f"b200kit: packed caches not fetched: {error}", file=sys.stderr)
        return 1
    print(size_text(size))
    return 0


def fetch(digest: str, out: Path, found: Sequence[Source], manners: Manners) -> int:
    """Bring the pack of this hash; its size. How large it is the sources themselves say."""
    name, errors = f"{digest}.tar", []
    for source in found:
        try:
            size = insist(partial(_size, source, name), manners.tries, manners.pause_s)
            _require_room(source, size, out)
            entry = ManifestFile(name, size, digest)
            bring(Job(entry, out / name, [source], manners, lambda count: None))
        except SourceError as error:
            errors.append(error)
        except FetchError as error:
            if error.final and "no disk space" in str(error):
                raise
            errors.append(SourceError(str(error), again=not error.final))
        else:
            return size
    raise refusal(errors)


def _require_room(source: Source, size: int, out: Path) -> None:
    """Nothing but its hash is pinned: a source's word of its size must not fill the disk."""
    out.mkdir(parents=True, exist_ok=True)
    most = min(MOST_BYTES, shutil.disk_usage(out).free // 2)
    if size > most:
        raise SourceError(f"{source.url}: it says {size_text(size)}, at most {size_text(most)}")


def _size(source: Source, name: str) -> int:
    answer = source.open(name)
    answer.close()
    if answer.size is None:
        raise SourceError(f"{answer.url}: it does not say how large it is")
    return answer.size
