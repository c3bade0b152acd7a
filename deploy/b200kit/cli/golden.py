"""`b200 golden show|forget`: the references that answers are compared with; replace a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from b200kit.cli.command import JSON, STORE, Command, CommandGroup, refusals
from b200kit.node.client.golden.prompts import TOLERANCE
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.records import golden
from b200kit.records.entries import Forgetting, Record, RecordError
from b200kit.records.store import GOLDEN, Records
from b200kit.run import console
from b200kit.store.database import Store

DONE, REFUSED, UNKNOWN = 0, 1, 2
_TOLERANCE = click.option(
    "--tolerance", type=click.FloatRange(min=0, min_open=True), default=TOLERANCE,
    show_default=True, help="smoke.golden_tolerance of the inventory.",
)  # fmt: skip
_SHOWN = ("machine.gpus", "versions.driver", "versions.engine_says", "load.model", "model.revision")


@click.group("golden", cls=CommandGroup)
def command() -> None:
    """References of golden answers."""


@command.command(
    "show", cls=Command, exit_codes={DONE: "shown", UNKNOWN: "no reference, or damaged"}
)
@click.argument("key", required=False)
@_TOLERANCE
@JSON
@STORE
def show(key: str | None, tolerance: float, as_json: bool, store: Path | None) -> None:
    """Show what each key's reference is of and how many replicas agree, or one KEY in full."""
    with refusals(UNKNOWN):
        kept = Records(GOLDEN, Store(store))
        names = [_name(kept, key)] if key else kept.names()
        if not names:
            raise RecordError(f"no golden answers in {kept.store.path} yet: measure a node first")
        known = {name: kept.read(name) for name in names}
    if as_json:
        console.document(unstructure({name: record.golden for name, record in known.items()}))
    for name, record in known.items() if not as_json else ():
        console.out(*_lines(name, record, tolerance), *(_whole(record) if key else ()))


@command.command("forget", cls=Command, exit_codes={DONE: "forgotten", REFUSED: "refused"})
@click.argument("key")
@click.option("--by", required=True, metavar="NAME", help="Who answers for it.")
@click.option("--why", required=True, help="Why the reference is wrong.")
@STORE
def forget(key: str, by: str, why: str, store: Path | None) -> None:
    """Forget the reference of KEY: the next replicas that agree make a new one.

    What was said stays, and so does by whom and why it was forgotten.
    """
    with refusals(REFUSED):
        kept = Records(GOLDEN, Store(store))
        name = _name(kept, key)
        record = kept.read(name)
        if not record.golden:
            raise RecordError(f"{name}: nothing is to be forgotten")
        first = record.golden[0].node
        entry = Forgetting(first, timestamp.now(), by.strip(), why.strip())
        kept.append(name, entry)
    console.out(f"{name}: forgotten, by {by}: {why}")
    console.out("Measure two replicas that are right next: smoke.py on a node you trust.")


def _lines(name: str, record: Record, tolerance: float) -> Iterator[str]:
    """The reference of a key in a line, what it holds for, and who forgot one before it."""
    words, kept = record.golden, golden.reference(record, tolerance)
    if kept:
        count = golden.support(kept, words, tolerance)
        yield f"{name}  {kept.node}  {kept.at}  {count} replicas agree"
    else:
        said = ", ".join(one.node for one in words)
        why = f"no two replicas alike of {said}" if said else "nobody has answered since"
        yield f"{name}  no reference: {why}"
    for one in record.of(Forgetting):
        yield f"    forgotten {one.at} by {one.by}: {one.why}"
    key = words[-1].key if words else {}
    yield "    " + "; ".join(str(key[field]) for field in _SHOWN if field in key)


def _whole(record: Record) -> Iterator[str]:
    """All that a key says, and each node's word."""
    for one in record.golden:
        yield f"    {one.at}  {one.node}: {one.replicas} replicas"
    for field, value in record.golden[-1].key.items() if record.golden else ():
        yield f"    {field}: {value}"


def _name(kept: Records, key: str) -> str:
    """The one key that begins so. Raises RecordError."""
    found = [name for name in kept.names() if name.startswith(key)]
    if len(found) != 1:
        raise RecordError(f"{key!r} is not the beginning of one key in {kept.store.path}")
    return found[0]
