"""Names of a run's folder and of each host's file in it."""

from __future__ import annotations

from b200kit.report.document import Unmeasured, read, show
from b200kit.run.file_names import safe_name


def run_name(record: object) -> str:
    """Return the folder name of a run: its id, or ``run-without-id``."""
    run = read(record, "run")
    return "run-without-id" if run is None or isinstance(run, Unmeasured) else safe_name(show(run))


def host_file(name: str) -> str:
    """Return the file name of a host's JSON, apart from the names the report itself uses."""
    stem = safe_name(name)
    return f"{stem}-host.json" if stem == "summary" else f"{stem}.json"
