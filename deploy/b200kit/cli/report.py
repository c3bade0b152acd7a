"""`b200 report [RUN_DIR|latest]`: shows a stored run again."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from b200kit.report.document import mapping, read
from b200kit.report.terminal.page import render


def main(argv: list[str]) -> int:
    """Print the terminal view of a stored run and where its page is.

    Exit code 0 when shown (whatever the run's outcome), 2 with one line when there is no run.
    """
    parser = argparse.ArgumentParser(prog="b200 report", description="show a stored run again")
    parser.add_argument("run", nargs="?", default="latest", help="its folder, its id, or 'latest'")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="folder of all runs")
    parser.add_argument("--colour", action="store_true", help="add colour")
    options = parser.parse_args(argv)
    try:
        folder = find(options.run, options.reports)
        record = load(folder)
    except (OSError, ValueError) as error:
        print(f"b200 report: {error}", file=sys.stderr)
        return 2
    page = folder / "report.html"
    print(render(record, colour=options.colour, report=str(page)), end="")
    if not page.is_file():
        print(f"b200 report: {page} is not there", file=sys.stderr)
    return 0


def find(run: str, reports: Path) -> Path:
    """Return the folder of a run: a path, an id under `reports`, or the latest by its id.

    Raises ValueError with one line that says what was looked for.
    """
    if run != "latest":
        for folder in (Path(run), reports / run):
            if (folder / "summary.json").is_file():
                return folder
        raise ValueError(f"no summary.json in {run} nor in {reports / run}: no such run")
    found = sorted(path.parent for path in reports.glob("*/summary.json"))
    if not found:
        raise ValueError(f"no run in {reports}/ yet: run a deploy first")
    return found[-1]


def load(folder: Path) -> dict[str, object]:
    """Return the run record that `folder` was written from; raises ValueError if unreadable."""
    summary = mapping(_json(folder / "summary.json"))
    hosts: dict[str, object] = {}
    for name, entry in mapping(read(summary, "hosts")).items():
        file = read(entry, "file")
        path = folder / Path(file).name if isinstance(file, str) else None
        hosts[name] = _json(path) if path and path.is_file() else entry
    return {**summary, "hosts": hosts}


def _json(path: Path) -> object:
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    return document
