"""`compile-cache`: the hook before a replica's start, which makes the directory of its caches.

It runs as the engine's own user, in its sandbox: it has the engine's rights only. It makes the
directory of this configuration's key, and removes the keys that were not used for longest. It never
keeps a replica from starting.

vLLM, torch, Triton, FlashInfer and CUDA keep compiled kernels on disk. A replica has a directory of
its own (two that write into one race), and in it one for each key: what was compiled for another
engine, model, shape or driver is never met again, and going back to an earlier configuration finds
its kernels still there.

    /var/cache/vllm/3/KEY/{vllm,triton,inductor,cuda,flashinfer,home,...}

vLLM's own key has its version, its configuration, max_num_batched_tokens and max_num_seqs
(docs.vllm.ai, design/torch_compile; quoted 2026-11). Ours has them too, so that the directory as a
whole can be thrown away.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEEP = 2
"""Keys kept a replica: the one in use, and the one that a roll-back goes to."""
RECORD = ".b200kit-key.json"
"""In each key's directory: when it was used last, as its time."""
_DIGITS = 16


def main(args: list[str]) -> int:
    """`compile-cache --root DIRECTORY --key KEY`; 0 whatever came of it."""
    parser = argparse.ArgumentParser(prog="compile-cache")
    parser.add_argument("--root", type=Path, required=True, help="directory of one replica")
    parser.add_argument("--key", required=True, help="the configuration's")
    parser.add_argument("--keep", type=int, default=KEEP, help="keys that stay")
    options = parser.parse_args(args)
    try:
        prepare(options.root, options.key, options.keep)
    except OSError as error:
        # Without its caches a replica starts slowly, and that is all.
        print(f"caches not prepared: {error}", file=sys.stderr)
    return 0


def prepare(root: Path, key: str, keep: int = KEEP) -> None:
    """Make the key's directory, note its use, remove older keys."""
    here = root / key
    # The engine may write here: a link that it laid must lead nobody anywhere.
    for path in (here, here / RECORD):
        if path.is_symlink():
            path.unlink()
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    (here / RECORD).touch()
    os.utime(here / RECORD)
    for name in surplus(used(root), key, keep):
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


def key(what: Mapping[str, Any]) -> str:
    """The name of these facts' directory: 16 hexadecimal digits, the same on every node."""
    packed = json.dumps(what, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(packed).hexdigest()[:_DIGITS]


def environment(directory: str) -> dict[str, str]:
    """Variables that put every known cache under *directory*, which may hold systemd's "%C".

    XDG_CACHE_HOME and HOME catch the libraries that nobody knows of yet. CUDA's own limit of 1 GiB
    would throw kernels away that the next start needs.
    """
    return {
        "HOME": f"{directory}/home",
        "XDG_CACHE_HOME": f"{directory}/cache",
        "VLLM_CACHE_ROOT": f"{directory}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{directory}/inductor",
        "TRITON_CACHE_DIR": f"{directory}/triton",
        "FLASHINFER_WORKSPACE_BASE": f"{directory}/flashinfer",
        "CUDA_CACHE_PATH": f"{directory}/cuda",
        "CUDA_CACHE_MAXSIZE": "4294967296",
    }


def surplus(used: Mapping[str, float], current: str, keep: int = KEEP) -> list[str]:
    """Keys to remove: all but the current one and the *keep* - 1 others that were used last.

    *used* is each key's time of last use in seconds since the epoch.
    """
    others = sorted((k for k in used if k != current), key=lambda k: (used[k], k), reverse=True)
    return sorted(others[max(keep - 1, 0) :])
