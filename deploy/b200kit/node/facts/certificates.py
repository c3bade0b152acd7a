"""Until when the certificates on this node hold that an endpoint or a sink needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from b200kit.node.lib import certificates as pem
from b200kit.node.lib import timestamp
from b200kit.node.lib.readings import attempt


def certificates(asked: Mapping[str, pem.Kind]) -> dict[str, Any]:
    """Path to when its certificates hold, null where there is no such file."""
    return {path: attempt(partial(_read, Path(path), kind)) for path, kind in asked.items()}


def _read(path: Path, kind: pem.Kind) -> dict[str, str] | None:
    try:
        found = pem.validity(path.read_bytes(), kind)
    except FileNotFoundError:
        return None
    return {"begins": timestamp.text(found.begins), "ends": timestamp.text(found.ends)}
