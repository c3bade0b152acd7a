"""`b200 record list|show|accept|compare`: the record of measured runs, and whether they repeat."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import JSON, STORE, Command, CommandGroup, refusals
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.records import comparison
from b200kit.records.comparison import AgainstRecord
from b200kit.records.entries import Acceptance, Record, RecordError
from b200kit.records.statistics import ComparisonOutcome
from b200kit.records.store import Records
from b200kit.report.terminal import records as shown
from b200kit.report.terminal.lines import Lines
from b200kit.run import console
from b200kit.store.database import Store

SHOWN, REFUSED, UNKNOWN = 0, 1, 2
_LAST = click.option(
    "--last", type=click.IntRange(min=1), default=comparison.NEWEST, show_default=True,
    help="How many of the newest runs.",
)  # fmt: skip


@click.group("record", cls=CommandGroup)
def command() -> None:
    """The record of measured runs."""


@command.command("list", cls=Command, exit_codes={SHOWN: "shown", UNKNOWN: "no record, or damaged"})
@click.argument("node", required=False)
@JSON
@STORE
def show_all(node: str | None, as_json: bool, store: Path | None) -> int:
    """List every run of NODE, or the newest run of each node."""
    with refusals(UNKNOWN):
        known = _records(Records(store=Store(store)), node)
    page = _page()
    shown.runs(page, known[node]) if node else shown.fleet(page, known)
    runs = {name: record.runs if node else record.runs[-1:] for name, record in known.items()}
    console.document(unstructure(runs)) if as_json else console.out(*page.found, colour=True)
    return SHOWN


@command.command(
    "show", cls=Command, exit_codes={SHOWN: "shown", UNKNOWN: "no such run, or damaged"}
)
@click.argument("node")
@click.argument("run", default="")
@JSON
@STORE
def show(node: str, run: str, as_json: bool, store: Path | None) -> int:
    """Show one run of NODE with its conditions: the newest, or the one with the id RUN."""
    with refusals(UNKNOWN):
        record = _read(Records(store=Store(store)), node)
        entry = record.run(run) if run else (record.runs or (None,))[-1]
        if entry is None:
            raise RecordError(f"{run or 'a run'} is not the id of one run of {node}")
    page = _page()
    shown.one(page, entry)
    console.document(unstructure(entry)) if as_json else console.out(*page.found, colour=True)
    return SHOWN


@command.command("accept", cls=Command, exit_codes={SHOWN: "accepted", REFUSED: "refused"})
@click.argument("node")
@click.option("--by", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--why", required=True, help="Why these runs are as they should be.")
@click.option(
    "--runs",
    default="",
    metavar="RUN[,...]",
    help="Ids with commas between them; else the newest runs.",
)
@_LAST
@STORE
def accept(node: str, by: str, why: str, runs: str, last: int, store: Path | None) -> None:
    """Accept runs as the baseline of NODE."""
    with refusals(REFUSED):
        requested = [part.strip() for part in runs.split(",") if part.strip()]
        records = Records(store=Store(store))
        accepted = comparison.acceptable(_read(records, node), requested, last)
        ids = tuple(run.id for run in accepted)
        entry = Acceptance(node, timestamp.now(), by.strip(), why.strip(), ids)
        records.append(node, entry)
    console.out(f"{node}: {len(accepted)} runs are the baseline, by {by}: {why}")
    console.out(f"{node}: {comparison.days(accepted)}")


@command.command(
    "compare",
    cls=Command,
    exit_codes={SHOWN: "same or better", REFUSED: "slower", UNKNOWN: "cannot be decided"},
)
@click.argument("node", required=False)
@click.option("--with", "other", metavar="NODE", help="Compare with this node's newest runs.")
@JSON
@_LAST
@STORE
def compare(
    node: str | None, other: str | None, as_json: bool, last: int, store: Path | None
) -> int:
    """Compare the newest runs of NODE, or of each node, with the accepted ones."""
    with refusals(UNKNOWN):
        known = _records(Records(store=Store(store)), node)
        reference = _read(Records(store=Store(store)), other) if other else None
        found = {name: comparison.against(r, last, reference) for name, r in known.items()}
    page = _page()
    for name, compared in found.items():
        shown.comparison(page, name, compared)
    console.document(unstructure(found)) if as_json else console.out(*page.found, colour=True)
    return max(map(_exit_code, found.values()), key=(0, 2, 1).index)


def _page() -> Lines:
    return Lines(console.width(), console.coloured())


def _exit_code(compared: AgainstRecord) -> int:
    if compared.outcome is ComparisonOutcome.UNCLEAR:
        return UNKNOWN
    return REFUSED if compared.slower else SHOWN


def _records(records: Records, node: str | None) -> dict[str, Record]:
    """The record of a node, or of all nodes. Raises RecordError when there is none."""
    names = [node] if node else records.names()
    if not names:
        raise RecordError(f"no record in {records.store.path} yet: measure a node first")
    return {name: _read(records, name) for name in names}


def _read(records: Records, node: str) -> Record:
    """A node's record. Raises RecordError when there is none."""
    record = records.read(node)
    if not record.entries:
        raise RecordError(f"{records.store.path} holds no record of {node}")
    return record
