"""Models on this node: the reading of an observation, and the unit that brings one.

    {"model": {"complete": true, "bytes": 72000000000, "proof": "record", "wrong": {}},
     "revisions": [{"model", "revision", "complete", "bytes", "stamped_at", "requested"}],
     "progress": null | the status of b200kit/node/weights/progress.py}

Without being asked for hashes, a model is compared with the record of its proof: sizes and times
of change, some hundred calls of stat. With `hash` every byte is read again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from b200kit.node.lib import timestamp
from b200kit.node.lib.managed_files import note
from b200kit.node.lib.readings import attempt, command
from b200kit.node.weights import model_files
from b200kit.node.weights.manifest import RECORD, STAMP, ManifestError, wrong
from b200kit.node.weights.progress import STATUS

UNIT = "b200-weights.service"
_POLL_S = 0.2
_HASHERS = 8
_RUNNING = ("active", "activating", "reloading", "deactivating")
_ENDED = ("failed", "refused")


def weights(ask: dict[str, Any]) -> dict[str, Any]:
    """What `ask` {"root", "model", "revision", "hash"} is about."""
    root, name, revision = Path(ask["root"]), str(ask["model"]), str(ask["revision"])
    return {
        "model": attempt(lambda: model(root / name / revision, revision, bool(ask.get("hash")))),
        "revisions": attempt(lambda: list(revisions(root, (name, revision)))),
        "progress": attempt(progress),
    }


def model(directory: Path, revision: str, by_hash: bool) -> dict[str, Any]:
    """Whether a model is stamped, and what of it is not as it was proven."""
    proof = "hash" if by_hash else "record"
    if not (directory / STAMP).is_file():
        return {"complete": False, "bytes": size(directory), "proof": proof, "wrong": {}}
    try:
        entries = model_files.manifest(directory, revision)
    except (OSError, ManifestError) as error:
        found = {"manifest.json": str(error)}
    else:
        found = wrong(entries, model_files.record(directory), model_files.observed(directory))
        if by_hash:
            found |= model_files.rehash(directory, entries, min(_HASHERS, os.cpu_count() or 1))
    return {"complete": True, "bytes": size(directory), "proof": proof, "wrong": found}


def size(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(count for count, _ in model_files.observed(directory).values())


def revisions(root: Path, requested: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """Every revision of every model that lies here whole or begun, newest stamp first."""
    found = [p for p in root.glob("*/*") if (p / STAMP).is_file() or (p / RECORD).is_file()]
    for path in sorted(found, key=stamped, reverse=True):
        name = (path.parent.name, path.name)
        yield {
            "model": name[0],
            "revision": name[1],
            "complete": (path / STAMP).is_file(),
            "bytes": size(path),
            "stamped_at": timestamp.text(datetime.fromtimestamp(stamped(path), timestamp.UTC)),
            "requested": name == requested,
        }


def stamped(directory: Path) -> float:
    """When a model was stamped, 0 for one that was only begun."""
    try:
        return (directory / STAMP).stat().st_mtime
    except OSError:
        return 0.0


def progress() -> Any:
    """The last word of the fetch at work, or of the last one of this boot; null when none was."""
    return note(STATUS)


def main(args: list[str]) -> int:
    """Begin, await or remove; prints one JSON document, 0 whatever it says, 1 when it could not."""
    parser = argparse.ArgumentParser(prog="weights")
    parser.add_argument("act", choices=("begin", "wait", "drop"))
    parser.add_argument("--dest", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to look")
    parser.add_argument("--again", action="store_true", help="what is there counts as unproven")
    parser.add_argument("--root", type=Path, help="drop: where models lie")
    options = parser.parse_args(args)
    try:
        act = {"begin": begin, "wait": wait, "drop": drop}[options.act]
        print(json.dumps(act(options)))
    except (OSError, subprocess.SubprocessError) as error:
        print(f"b200kit: weights {options.act}: {error}")
        return 1
    return 0


def begin(options: argparse.Namespace) -> dict[str, Any]:
    """Restart the unit; returns as soon as it fetches, has ended, or the time is up."""
    if options.again:
        for name in (STAMP, RECORD):
            (options.dest / name).unlink(missing_ok=True)
    STATUS.unlink(missing_ok=True)
    command(["systemctl", "daemon-reload"])
    command(["systemctl", "reset-failed", UNIT], accept=(0, 1))
    command(["systemctl", "restart", "--no-block", UNIT])
    return _watched(options, ("fetching", "complete", *_ENDED))


def wait(options: argparse.Namespace) -> dict[str, Any]:
    """Look until the model is there, the fetch has ended, or the time is up."""
    return _watched(options, ("complete", *_ENDED))


def _watched(options: argparse.Namespace, until: tuple[str, ...]) -> dict[str, Any]:
    end = time.monotonic() + options.seconds
    while True:
        progress = _look(options.dest)
        observed = progress["progress"] or {}
        if progress["complete"] or not progress["running"] or observed.get("state") in until:
            return progress
        if time.monotonic() >= end:
            return progress
        time.sleep(_POLL_S)


def _look(dest: Path) -> dict[str, Any]:
    """Whether the model is there and its unit at work, a queued one included."""
    shown = command(["systemctl", "show", UNIT, "--property=ActiveState,Job"]).splitlines()
    unit = dict(line.split("=", 1) for line in shown if "=" in line)
    queued = unit.get("Job", "") not in ("", "0")
    return {
        "running": queued or unit.get("ActiveState") in _RUNNING,
        "complete": (dest / STAMP).is_file(),
        "progress": progress(),
    }


def drop(options: argparse.Namespace) -> dict[str, Any]:
    """Remove one revision of a model: ROOT/MODEL/REVISION and nothing else."""
    dest: Path = options.dest
    if options.root is None or dest.parent.parent != options.root or dest.is_symlink():
        raise OSError(f"{dest} is no revision of a model below {options.root}")
    # Half of it gone must never be taken for whole.
    (dest / STAMP).unlink(missing_ok=True)
    shutil.rmtree(dest)
    if not any(dest.parent.iterdir()):
        dest.parent.rmdir()
    return {"dropped": str(dest)}
