"""`b200 report [RUN]`: shows a stored run again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from b200kit.cli.command import Command, Refusal
from b200kit.report.document import mapping, read
from b200kit.report.terminal.page import render

NO_RUN = 2


@click.command("report", cls=Command, exit_codes={0: "shown", NO_RUN: "there is no such run"})
@click.argument("run", default="latest")
@click.option(
    "--reports", type=click.Path(path_type=Path), default=Path("reports"), show_default=True,
    help="Directory of all runs.",
)  # fmt: skip
@click.option("--colour", is_flag=True, help="Add colour.")
def command(run: str, reports: Path, colour: bool) -> None:
    """Show the terminal view of a stored run and where its page is.

    RUN is its directory, its id, or 'latest'. The exit code does not depend on the run's outcome.
    """
    try:
        folder = find(run, reports)
        record = load(folder)
    except (OSError, ValueError) as error:
        raise Refusal(str(error), NO_RUN) from None
    page = folder / "report.html"
    print(render(record, colour=colour, report=str(page)), end="")
    if not page.is_file():
        print(f"b200 report: {page} is missing", file=sys.stderr)


def find(run: str, reports: Path) -> Path:
    """Return the folder of a run: a path, an id under `reports`, or the latest by its id.

    Raises ValueError with one line that says where was looked.
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
    summary = mapping(document(folder / "summary.json"))
    hosts: dict[str, object] = {}
    for name, entry in mapping(read(summary, "hosts")).items():
        file = read(entry, "file")
        path = folder / Path(file).name if isinstance(file, str) else None
        hosts[name] = document(path) if path and path.is_file() else entry
    return {**summary, "hosts": hosts}


def document(path: Path) -> object:
    """A stored document; raises OSError, and ValueError for what is no JSON."""
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    return found
