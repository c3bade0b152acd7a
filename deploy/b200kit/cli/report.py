"""`b200 report [RUN]`: shows a stored run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from b200kit.cli.command import JSON, REPORTS, Command, page_option, refusals
from b200kit.report import files, outcome
from b200kit.report.content import nodes as content
from b200kit.report.document import mapping, read
from b200kit.report.html import page as pages
from b200kit.report.terminal import page as terminal
from b200kit.run import console, document, places

NO_RUN = 2


@click.command(
    "report", cls=Command, exit_codes={0: "shown", NO_RUN: "there is no such run or node"}
)
@click.argument("run", default="latest")
@REPORTS
@click.option(
    "--node", "nodes", multiple=True, metavar="NODE",
    help="Only this node, whole; may be given again.",
)  # fmt: skip
@page_option("a page of what is shown")
@JSON
def command(
    run: str, reports: Path | None, nodes: tuple[str, ...], page: Path | None, as_json: bool
) -> None:  # fmt: skip
    """Show the terminal view of a stored run and where its page is.

    RUN is its directory, its id, or 'latest'. The exit code does not depend on the run's outcome.
    """
    with refusals(NO_RUN):
        folder = find(run, reports)
        every = bool(page or as_json or nodes)
        record = of_nodes(load(folder, None if every else content.whole), nodes)
        if page:
            page.write_text(pages.render(record), encoding="utf-8")
    if as_json:
        console.document(record)
        return
    page = page or folder / "report.html"
    found = terminal.lines(
        record, width=console.width(), colour=console.coloured(), report=str(page),
        all_whole=bool(nodes),
    )  # fmt: skip
    console.out(*found, colour=True)
    if not page.is_file():
        console.err(f"b200 report: {page} is missing")


def of_nodes(record: dict[str, object], nodes: tuple[str, ...]) -> dict[str, object]:
    """Return the record of some nodes, of all where none is named; ValueError for another name."""
    hosts = outcome.hosts_of(record)
    if unknown := [name for name in nodes if name not in hosts]:
        raise ValueError(f"{unknown[0]} is no node of this run")
    return {**record, "hosts": {name: hosts[name] for name in nodes or hosts}}


def find(run: str, reports: Path | None) -> Path:
    """Return the folder of a run: a path, an id under `reports`, or the latest by its id.

    Raises ValueError with one line that says where was looked.
    """
    if run != "latest" and (Path(run) / "summary.json").is_file():
        return Path(run)
    reports = reports or places.home() / "reports"
    if run != "latest":
        if (reports / run / "summary.json").is_file():
            return reports / run
        raise ValueError(f"no summary.json in {run} nor in {reports / run}: no such run")
    found = sorted(path.parent for path in reports.glob("*/summary.json"))
    if not found:
        raise ValueError(f"no run in {reports}/ yet: run a deploy first")
    return found[-1]


def load(
    folder: Path, whole: Callable[[Mapping[str, object]], Iterable[str]] | None = None
) -> dict[str, object]:
    """Return the run record that `folder` was written from; raises ValueError if unreadable.

    Of many nodes only those that *whole* names are read from their files, the others in short.
    """
    summary = mapping(files.stored(folder / "summary.json"))
    entries = mapping(read(summary, "hosts"))
    hosts = {name: mapping(entry).get("in_short", entry) for name, entry in entries.items()}
    for name in list(hosts) if whole is None else whole(hosts):
        file = read(entries[name], "file")
        path = folder / Path(file).name if isinstance(file, str) else None
        if path and path.is_file():
            hosts[name] = files.stored(path)
    return {**summary, "schema": document.RunHead.schema, "hosts": hosts}
