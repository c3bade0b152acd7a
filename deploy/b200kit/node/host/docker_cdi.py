"""`docker-cdi`: switch CDI on in /etc/docker/daemon.json, and leave the rest of it.

nvidia-ctk does the same (`runtime configure --runtime=docker --cdi.enabled`), but replaces all of
the owner's `features` (EnableCDI of pkg/config/engine/docker/docker.go, up to 1.20.0): without
`containerd-snapshotter` docker no longer finds its images.

Prints {"changed": [keys]}. Exit status: 0, or 1 with one line when the file is left as it is.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tempfile
from pathlib import Path

from b200kit.node.facts import docker
from b200kit.node.lib import documents, durable_files
from b200kit.node.lib.documents import Object
from b200kit.node.lib.readings import command

BACKUP = Path("/var/lib/b200kit/backup/etc-docker-daemon.json")
_SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
_CHECK = ("dockerd", "--validate", "--config-file")


def main(args: list[str]) -> int:
    """Switch CDI on, print what changed."""
    del args
    try:
        changed = switch_on(docker.CONFIG)
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())
        print(f"b200kit: {said}; nothing was changed", file=sys.stderr)
        return 1
    print(json.dumps({"changed": changed}))
    return 0


def switch_on(path: Path) -> list[str]:
    """The keys that changed, [] when CDI is on; raises OSError or ValueError, nothing changed."""
    there = os.path.lexists(path)
    if there and not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{path}: it is a link, or no plain file")
    text = path.read_text(encoding="utf-8-sig") if there else ""
    content = documents.decode(Object, text if text.strip() else "{}", documents.LARGE, path)
    changed = []
    features = content.setdefault("features", {})
    if not isinstance(features, dict):
        raise ValueError(f"{path}: features is no object")
    if features.get("cdi") is not True:
        features["cdi"] = True
        changed.append("features.cdi")
    folders = content.get("cdi-spec-dirs", [*_SPEC_DIRS])
    if not isinstance(folders, list):
        raise ValueError(f"{path}: cdi-spec-dirs is no list")
    if missing := [folder for folder in _SPEC_DIRS if folder not in folders]:
        folders += missing
        changed.append("cdi-spec-dirs")
    if changed:
        indent = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
        _replace(path, json.dumps(content, indent=indent[1] if indent else 4) + "\n", there)
    return changed


def _replace(path: Path, content: str, there: bool) -> None:
    """Put it in place with the file's rights, once docker accepts it; keep the owner's once."""
    with tempfile.NamedTemporaryFile(prefix="b200kit.", suffix=".json") as trial:
        trial.write(content.encode())
        trial.flush()
        try:
            command([*_CHECK, trial.name])
        except OSError as error:
            raise ValueError(f"{path}: what it would become is refused: {error}") from None
    known = path.stat() if there else None
    mode, owner = (stat.S_IMODE(known.st_mode), (known.st_uid, known.st_gid)) if known else (
        0o644, (0, 0),
    )  # fmt: skip
    if there and not BACKUP.exists():
        durable_files.replace(BACKUP, path.read_bytes(), mode, owner)
    durable_files.replace(path, content, mode, owner)
