"""File names for runs and hosts, whose own names may hold anything."""

from __future__ import annotations

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def safe_name(name: str) -> str:
    """Return `name` as a file name; one that had to change gets a digest, so none collide."""
    safe = _UNSAFE.sub("_", name).lstrip(".")[:60]
    if safe == name and safe:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe or 'unnamed'}-{digest}"
