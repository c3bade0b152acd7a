"""File names for runs and hosts, whose own names may hold anything."""

from __future__ import annotations

import hashlib
import re

from b200kit.report.document import Unmeasured, read, show

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def safe_name(name: str) -> str:
    """Return `name` as a file name; one that had to change gets a digest, so none collide."""
    safe = _UNSAFE.sub("_", name).lstrip(".")[:60]
    if safe == name and safe:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe or 'unnamed'}-{digest}"


def run_name(record: object) -> str:
    """Return the folder name of a run: its id, or ``run-without-id``."""
    run = read(record, "run")
    return "run-without-id" if run is None or isinstance(run, Unmeasured) else safe_name(show(run))


def host_file(name: str) -> str:
    """Return the file name of a host's JSON, apart from the names the report itself uses."""
    stem = safe_name(name)
    return f"{stem}-host.json" if stem == "summary" else f"{stem}.json"
