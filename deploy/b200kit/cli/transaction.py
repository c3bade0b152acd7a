"""`b200 transaction list|show`: who is mending which node, since when, and how far it is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from b200kit.node.lib import timestamp
from b200kit.reprovision import explain, ledger, transaction
from b200kit.reprovision.states import State
from b200kit.reprovision.transaction import Transaction

SHOWN, NONE = 0, 2


def main(argv: list[str]) -> int:
    """0 shown, 2 there is no such transaction."""
    options = _parser().parse_args(argv)
    folder = options.transactions or ledger.directory()
    return _show(folder, options) if options.what == "show" else _list(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="b200 transaction", description=__doc__)
    parser.add_argument("what", choices=("list", "show"))
    parser.add_argument("node", nargs="?", help="the node that is shown")
    parser.add_argument("--json", action="store_true", help="as the report has it")
    parser.add_argument("--transactions", type=Path, help="directory of the transactions")
    return parser


def _list(folder: Path) -> int:
    names = ledger.nodes(folder) if folder.is_dir() else []
    found = [ledger.read(folder, name) for name in names]
    open_ones = [tx for tx in found if tx.is_open]
    for tx in open_ones:
        print(f"{tx.node}  {_line(tx)}")
    print(f"{len(open_ones)} of {len(found)} known nodes are out of service")
    return SHOWN


def _line(tx: Transaction) -> str:
    if tx.state is State.HANDS:
        return explain.for_hands(tx)
    pending = f", in the middle of {tx.pending['step']}" if tx.pending else ""
    return f"{tx.state.value}{pending}, out since {tx.opened}; {_held(tx)}"


def _held(tx: Transaction) -> str:
    owner = tx.owner
    if owner is None:
        return "held by nobody: the next run goes on"
    now = transaction.seconds(timestamp.now())
    over = "" if transaction.held_by_another(tx, "", now) else ", which has run out"
    return f"held by {owner['owner']} since {owner['since']} until {owner['until']}{over}"


def _show(folder: Path, options: argparse.Namespace) -> int:
    tx = ledger.read(folder, options.node or "")
    if not tx.steps and not tx.is_open:
        print(f"b200 transaction: {folder} knows no act on {options.node}", file=sys.stderr)
        return NONE
    if options.json:
        print(json.dumps(tx.to_json(), indent=2))
        return SHOWN
    print(f"{tx.node}  {_line(tx) if tx.is_open else 'serving'}")
    for step in tx.steps:
        print(
            f"  {step['at']}  {step['act']:<24} {step['from']} -> {step['to']}  {step['outcome']}"
        )
    return SHOWN
