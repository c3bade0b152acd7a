"""CDI specifications of the node's GPUs: what they name, and what of that is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.facts.cdi_support import KIND
from b200kit.node.lib import documents, tables
from b200kit.node.lib.readings import attempt

DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
# Branches of the driver have three digits; libraries of other origins have small versions.
_LIBRARY = re.compile(r"\.so\.([0-9]{3,}\.[0-9]+(?:\.[0-9]+)*)$")


def specs() -> dict[str, Any]:
    """Path to summary of every specification for NVIDIA's GPUs; unmeasured where it is unreadable.

    Those for other devices are left out.
    """
    files = [
        path
        for folder in DIRECTORIES
        for path in sorted(folder.glob("*"))
        if path.suffix in (".yaml", ".json")
    ]
    found = {str(path): attempt(partial(summary, path)) for path in files}
    return {path: reading for path, reading in found.items() if reading is not None}


def summary(path: Path) -> dict[str, Any] | None:
    """What one specification names; None when it is for other devices.

    Raises OSError or ValueError when it cannot be read.
    """
    with path.open(encoding="utf-8") as file:
        text = file.read(documents.LARGE + 1)
    is_json = path.suffix == ".json"
    value = documents.parse(text, documents.LARGE) if is_json else tables.parse(text)
    document = documents.structure(documents.Object, value)
    if document.get("kind") != KIND:
        return None
    devices = document.get("devices", [])
    if not isinstance(devices, list):
        raise ValueError("its devices are no list")
    edits = [document.get("containerEdits", {}), *(d.get("containerEdits", {}) for d in devices)]
    nodes, mounts, hooks = (set(_paths(edits, *keys)) for keys in _KEYS)
    return {
        "version": str(document.get("cdiVersion")),
        "devices": {str(d.get("name")): sorted(_paths([d["containerEdits"]], *_KEYS[0]))
                    for d in devices},
        "missing": sorted(p for p in nodes | mounts | hooks if not os.path.exists(p)),
        "drivers": sorted({match[1] for p in mounts if (match := _LIBRARY.search(p))}),
        "hooks": sorted({os.path.basename(p) for p in hooks}),
    }  # fmt: skip


# List of the edits, and the keys that hold the path on the host, first the one that counts.
_KEYS = (
    ("deviceNodes", "hostPath", "path"),
    ("mounts", "hostPath"),
    ("hooks", "path"),
)


def _paths(edits: list[Any], name: str, *keys: str) -> Iterator[str]:
    for edit in edits:
        for entry in edit.get(name) or [] if isinstance(edit, dict) else []:
            path = next((entry[key] for key in keys if entry.get(key)), None)
            if isinstance(path, str):
                yield path
