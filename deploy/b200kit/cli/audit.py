"""`b200 audit verify|show`: every action on every node, and whether the store is intact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from b200kit.cli.command import JSON, REPORTS, STORE, Command, CommandGroup, Refusal
from b200kit.cli.report import find
from b200kit.node.lib.documents import unstructure
from b200kit.report.document import counted, mapping, read
from b200kit.report.files import stored
from b200kit.reprovision import copy_comparison
from b200kit.reprovision.ledger import Transactions
from b200kit.run import console
from b200kit.store.database import Newest, Store, StoreError

INTACT, DAMAGED, UNREADABLE = 0, 1, 2


@click.group("audit", cls=CommandGroup)
def command() -> None:
    """The log of every action on every node."""


@command.command(
    "verify",
    cls=Command,
    exit_codes={
        INTACT: "intact",
        DAMAGED: "a line was changed, added, moved or removed, in the store or a node's copy",
        UNREADABLE: "there is no store yet",
    },
)
@STORE
@click.option(
    "--run", default="latest", show_default=True, metavar="RUN",
    help="The run that read the nodes' own copies, as b200 report takes it.",
)  # fmt: skip
@REPORTS
@JSON
def verify(store: Path | None, run: str, reports: Path | None, as_json: bool) -> int:
    """Say whether the store is intact, page by page, and by the nodes' own copies."""
    transactions = Transactions(Store(store))
    faults, names, last, lines = transactions.store.faults(), list[str](), Newest(), 0
    copies = Copies()
    with suppress(StoreError), transactions.store.reading():  # what is raised is a fault already
        names, last = transactions.nodes(), transactions.store.last
        lines = sum(map(transactions.count, names))
        copies = _copies(reports, run, names)
        faults += _wrong(transactions, names, copies)
    if not (faults or names):
        raise Refusal(f"{transactions.store.path} has no action yet", UNREADABLE)
    faults = list(dict.fromkeys(faults))
    for line in faults:
        console.err(f"b200 audit: {line}")
    state = counted(len(faults), "fault") if faults else "intact"
    if as_json:
        copied = sorted(copies.by_node)
        console.document(
            {"actions": lines, "nodes": names, "newest": last.digest, "copies": copied,
             "faults": faults}
        )  # fmt: skip
        return DAMAGED if faults else INTACT
    actions = f"{counted(lines, 'action')} on {counted(len(names), 'node')}"
    console.out(f"{actions}: {state}; newest {last.digest[:10]}")
    console.out(_compared(copies, names))
    return DAMAGED if faults else INTACT


@command.command("show", cls=Command, exit_codes={INTACT: "shown", UNREADABLE: "no action yet"})
@click.argument("node", required=False)
@JSON
@STORE
def show(node: str | None, as_json: bool, store: Path | None) -> None:
    """Show the actions, one a line; with NODE only those on this node."""
    transactions = Transactions(Store(store))
    try:
        actions = [each for each in transactions.actions() if node in (None, each.node)]
    except StoreError as error:
        raise Refusal(str(error), DAMAGED) from None
    if not actions:
        raise Refusal(f"{transactions.store.path} has no action yet", UNREADABLE)
    console.document(unstructure(actions)) if as_json else console.out(*map(str, actions))


def _wrong(transactions: Transactions, names: list[str], copies: Copies) -> Iterator[str]:
    """A line for each node whose lines make no transaction, or whose own copy says otherwise."""
    for name in names:
        try:
            transactions.read(name)
        except StoreError as error:
            yield str(error)
            continue
        if name in copies.by_node:
            lines = transactions.lines(name)
            if fault := copy_comparison.fault(lines, copies.by_node[name], copies.run):
                yield f"{name}: its own copy: {fault}"


@dataclass(frozen=True)
class Copies:
    """What a run read of the nodes' own copies."""

    run: str = ""
    folder: str = ""
    by_node: dict[str, object] = field(default_factory=dict)


def _copies(reports: Path | None, run: str, names: list[str]) -> Copies:
    """The copies that a run read; none where there is no run yet."""
    try:
        folder = find(run, reports)
        hosts = mapping(read(stored(folder / "summary.json"), "hosts"))
    except (OSError, ValueError) as error:
        if run == "latest":
            return Copies()
        raise Refusal(error, UNREADABLE) from None
    found = {}
    for name, host in hosts.items():
        file = read(host, "file")
        if name not in names or not isinstance(file, str):
            continue
        notes = mapping(read(stored(folder / Path(file).name), "state", "notes"))
        if "reprovision" in notes:
            found[name] = notes["reprovision"]
    return Copies(folder.name, str(folder), found)


def _compared(copies: Copies, names: list[str]) -> str:
    where = f" ({copies.folder})" if copies.folder else ""
    count = len(copies.by_node)
    more = "" if count == len(names) else "; b200 check reads those of the nodes that answer"
    return f"compared with the own copies of {count} of {counted(len(names), 'node')}{where}{more}"
