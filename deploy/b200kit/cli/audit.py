"""`b200 audit verify|show`: the log of every action on every node, and whether it is intact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from b200kit.cli.command import JSON, REPORTS, TRANSACTIONS, Command, Group, Refusal
from b200kit.cli.report import find
from b200kit.node.lib.documents import unstructure
from b200kit.report.document import counted, mapping, read
from b200kit.report.files import stored
from b200kit.reprovision import audit, copy_comparison, ledger
from b200kit.reprovision.ledger_line import LedgerLine, action_of
from b200kit.run import chain, console
from b200kit.run.places import safe_name

INTACT, DAMAGED, UNREADABLE = 0, 1, 2


@click.group("audit", cls=Group)
def command() -> None:
    """The log of every action on every node."""


@command.command(
    "verify",
    cls=Command,
    exit_codes={
        INTACT: "intact",
        DAMAGED: "a line was changed, added, moved or removed, in the log, a node's file or copy",
        UNREADABLE: "there is no log, or it cannot be read",
    },
)
@TRANSACTIONS
@click.option(
    "--run", default="latest", show_default=True, metavar="RUN",
    help="The run that read the nodes' own copies, as b200 report takes it.",
)  # fmt: skip
@REPORTS
@JSON
def verify(transactions: Path | None, run: str, reports: Path | None, as_json: bool) -> int:
    """Say whether the log is intact, by the nodes' files and by the nodes' own copies."""
    folder = transactions or ledger.directory()
    with ledger.unchanged(folder):
        content = _content(folder)
        names = ledger.nodes(folder)
        lines = {name: ledger.lines(folder, name).entries for name in names}
        digests = {name: ledger.digests(folder, name) for name in names}
    copies = _copies(reports, run, names)
    faults = [
        *audit.verify(content, digests),
        *_damaged(folder, names),
        *_other_copies(lines, copies),
    ]
    for line in faults:
        console.err(f"b200 audit: {line}")
    log = chain.parse(action_of, content)
    state = counted(len(faults), "fault") if faults else "intact"
    if as_json:
        copied = sorted(copies.by_node)
        console.document(
            {"actions": len(log.entries), "nodes": names, "newest": log.last, "copies": copied,
             "faults": faults}
        )  # fmt: skip
        return DAMAGED if faults else INTACT
    actions = f"{counted(len(log.entries), 'action')} on {counted(len(names), 'node')}"
    console.out(f"{actions}: {state}; newest {log.last[:10]}")
    console.out(_compared(copies, names))
    return DAMAGED if faults else INTACT


@command.command("show", cls=Command, exit_codes={INTACT: "shown", UNREADABLE: "there is no log"})
@click.argument("node", required=False)
@JSON
@TRANSACTIONS
def show(node: str | None, as_json: bool, transactions: Path | None) -> None:
    """Show the actions, one a line; with NODE only those on this node."""
    content = _content(transactions or ledger.directory())
    entries = [e for e in chain.parse(action_of, content).entries if node in (None, e.node)]
    console.document(unstructure(entries)) if as_json else console.out(*map(str, entries))


def _damaged(folder: Path, names: list[str]) -> Iterator[str]:
    """A line for each node whose own file is damaged."""
    for name in names:
        try:
            ledger.read(folder, name)
        except ledger.Damaged as error:
            yield f"{name}: {error}"


@dataclass(frozen=True)
class Copies:
    """What a run read of the nodes' own copies, by the name of the node's file."""

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
        if safe_name(name) not in names or not isinstance(file, str):
            continue
        notes = mapping(read(stored(folder / Path(file).name), "state", "notes"))
        if "reprovision" in notes:
            found[safe_name(name)] = notes["reprovision"]
    return Copies(folder.name, str(folder), found)


def _compared(copies: Copies, names: list[str]) -> str:
    where = f" ({copies.folder})" if copies.folder else ""
    count = len(copies.by_node)
    more = "" if count == len(names) else "; deploy/check.py reads those of the nodes that answer"
    return f"compared with the own copies of {count} of {counted(len(names), 'node')}{where}{more}"


def _other_copies(lines: Mapping[str, Sequence[LedgerLine]], copies: Copies) -> Iterator[str]:
    """A line for each node whose own copy is not what its file here says."""
    for name, copy in sorted(copies.by_node.items()):
        if fault := copy_comparison.fault(lines[name], copy, copies.run):
            yield f"{name}: its own copy: {fault}"


def _content(folder: Path) -> bytes:
    """The log. A missing log beside nodes that have transactions was removed: damage."""
    path = folder / ledger.AUDIT
    try:
        return path.read_bytes()
    except OSError as error:
        removed = folder.is_dir() and ledger.nodes(folder)
        code = DAMAGED if removed else UNREADABLE
        raise Refusal(error, code) from None
