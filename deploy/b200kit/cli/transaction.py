"""`b200 transaction list|show`: which nodes are out of service, by whom, and how far they are."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import JSON, STORE, Command, CommandGroup, Refusal
from b200kit.node.lib.documents import unstructure
from b200kit.reprovision import ledger, transaction
from b200kit.rollout import underway
from b200kit.run import console
from b200kit.store import database

SHOWN, DAMAGED, UNKNOWN = 0, 1, 2


@click.group("transaction", cls=CommandGroup)
def command() -> None:
    """Nodes that are changed or repaired: who works on which, and since when."""


@command.command(
    "list",
    cls=Command,
    exit_codes={
        SHOWN: "shown",
        DAMAGED: "the store is damaged, or what it has of a node",
        UNKNOWN: "the store cannot be read",
    },
)
@JSON
@STORE
def show_all(as_json: bool, store: Path | None) -> int:
    """List the nodes that are out of service, and the rollouts they belong to."""
    transactions = ledger.Transactions(database.Store(store))
    try:
        with transactions.store.reading():
            names = transactions.nodes()
            found = {name: _read(transactions, name) for name in names}
    except database.StoreError as error:
        raise Refusal(
            str(error), DAMAGED if isinstance(error, database.Damaged) else UNKNOWN
        ) from None
    damaged = {name: tx for name, tx in found.items() if isinstance(tx, database.Damaged)}
    open_ones = [
        tx for tx in found.values() if isinstance(tx, transaction.Transaction) and tx.is_open
    ]
    if as_json:
        known = {
            n: tx.report() for n, tx in found.items() if isinstance(tx, transaction.Transaction)
        }
        console.document({**unstructure(known), **{n: str(tx) for n, tx in damaged.items()}})
        return DAMAGED if damaged else SHOWN
    for tx in open_ones:
        console.out(f"{tx.node}  {underway.line(transactions, tx)}")
    for name, damage in damaged.items():
        console.out(f"{name}  DAMAGED: {damage}")
    console.out(
        *underway.rollouts([tx for tx in found.values() if isinstance(tx, transaction.Transaction)])
    )
    more = f"; {len(damaged)} damaged" if damaged else ""
    console.out(f"{len(open_ones)} of {len(names)} known nodes are out of service{more}")
    return DAMAGED if damaged else SHOWN


@command.command(
    "show",
    cls=Command,
    exit_codes={
        SHOWN: "shown",
        DAMAGED: "the store is damaged, or what it has of the node",
        UNKNOWN: "no transaction of this node",
    },
)
@click.argument("node")
@JSON
@STORE
def show(node: str, as_json: bool, store: Path | None) -> None:
    """Show each step of the transaction of NODE."""
    transactions = ledger.Transactions(database.Store(store))
    tx = _read(transactions, node)
    if isinstance(tx, database.Damaged):
        raise Refusal(str(tx), DAMAGED)
    if not tx.steps and not tx.is_open:
        raise Refusal(f"{transactions.store.path} has no transaction of {node}", UNKNOWN)
    if as_json:
        console.document(unstructure(tx.report()))
        return
    console.out(f"{tx.node}  {underway.line(transactions, tx) if tx.is_open else 'serving'}")
    for step in tx.steps:
        way = f"{step.before} -> {step.after}"
        console.out(f"  {step.at}  {step.action:<24} {way}  {step.outcome}")


def _read(
    transactions: ledger.Transactions, node: str
) -> transaction.Transaction | database.Damaged:
    try:
        return transactions.read(node)
    except database.Damaged as error:
        return error
