"""`b200 audit verify|show`: the log of every action on every node, and whether it is intact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from b200kit.cli.command import Command, Refusal
from b200kit.reprovision import audit, ledger
from b200kit.run import chain, console

INTACT, DAMAGED, UNREADABLE = 0, 1, 2
_FOLDER = click.option(
    "--transactions", type=click.Path(path_type=Path), help="Directory of the transactions."
)


@click.group("audit", no_args_is_help=False)
def command() -> None:
    """The log of every action on every node."""


@command.command(
    "verify",
    cls=Command,
    exit_codes={
        INTACT: "intact",
        DAMAGED: "a line was changed, added, moved or removed, in the log or a node's file",
        UNREADABLE: "there is no log, or it cannot be read",
    },
)
@_FOLDER
def verify(transactions: Path | None) -> int:
    """Say whether the log is intact."""
    folder = transactions or ledger.directory()
    content = _content(folder)
    names = ledger.nodes(folder)
    known = {name: ledger.digests(folder, name) for name in names}
    faults = [*audit.verify(content, known), *_damaged(folder, names)]
    for line in faults:
        console.err(f"b200 audit: {line}")
    log = chain.parse(content)
    state = f"{len(faults)} faults" if faults else "intact"
    console.out(
        f"{len(log.entries)} actions on {len(names)} nodes: {state}; newest {log.last[:10]}"
    )
    return DAMAGED if faults else INTACT


@command.command("show", cls=Command, exit_codes={INTACT: "shown", UNREADABLE: "there is no log"})
@click.argument("node", required=False)
@_FOLDER
def show(node: str | None, transactions: Path | None) -> None:
    """Show the actions, one a line; with NODE only those on this node."""
    for entry in chain.parse(_content(transactions or ledger.directory())).entries:
        if node in (None, entry.get("node")):
            console.out(audit.describe(entry))


def _damaged(folder: Path, names: list[str]) -> Iterator[str]:
    """A line for each node whose own file is damaged."""
    for name in names:
        try:
            ledger.read(folder, name)
        except ledger.Damaged as error:
            yield f"{name}: {error}"


def _content(folder: Path) -> bytes:
    """The log. A missing log beside nodes that have transactions was removed: damage."""
    path = folder / ledger.AUDIT
    try:
        return path.read_bytes()
    except OSError as error:
        removed = folder.is_dir() and ledger.nodes(folder)
        code = DAMAGED if removed else UNREADABLE
        raise Refusal(f"{path}: {error.strerror}", code) from None
