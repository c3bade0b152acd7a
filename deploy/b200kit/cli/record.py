"""`b200 record list|show|accept|compare`: the record of measured runs, and whether they repeat."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from b200kit.node.lib import timestamp
from b200kit.records import comparison, entries, store
from b200kit.records.entries import Record, RecordError
from b200kit.records.statistics import Answer
from b200kit.report.content import records as told

SHOWN, REFUSED, UNSAID = 0, 1, 2
Act = Callable[[argparse.Namespace], int]


def main(argv: list[str]) -> int:
    """Run one of the four; 2 with one line for what cannot be read or is not there."""
    options = _parser().parse_args(argv)
    options.records = options.records or store.directory()
    act: Act = options.act
    try:
        return act(options)
    except (OSError, RecordError) as error:
        print(f"b200 record: {error}", file=sys.stderr)
        return REFUSED if act is _accept else UNSAID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="b200 record", description=__doc__)
    subs = parser.add_subparsers(required=True, metavar="list|show|accept|compare")

    def command(name: str, act: Act, text: str, node: str | None) -> argparse.ArgumentParser:
        sub = subs.add_parser(name, help=text, description=text)
        sub.add_argument("node", nargs=node)
        sub.add_argument("--records", type=Path, help="directory of the records")
        sub.set_defaults(act=act)
        return sub

    command("list", _list, "every run of a node, or each node's newest", "?")
    show = command("show", _show, "one run with its manifest", None)
    show.add_argument("run", nargs="?", default="", help="the run's id; the newest without one")
    show.add_argument("--json", action="store_true", help="the entry as it is stored")
    accept = command("accept", _accept, "accept runs as the node's baseline", None)
    accept.add_argument("--by", required=True, help="who answers for it")
    accept.add_argument("--why", required=True, help="why these runs are how it should be")
    accept.add_argument("--runs", default="", help="their ids, with commas; else the newest ones")
    accept.add_argument("--last", type=_count, default=comparison.NEWEST, help="how many newest")
    compare = command("compare", _compare, "the newest runs against the accepted ones", "?")
    compare.add_argument("--last", type=_count, default=comparison.NEWEST, help="how many newest")
    compare.add_argument("--with", dest="other", help="compare with this node's newest runs")
    compare.add_argument("--json", action="store_true", help="the comparison as JSON")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no count")
    return int(text)


def _list(options: argparse.Namespace) -> int:
    names = [options.node] if options.node else store.nodes(options.records)
    found = {name: _read(options, name) for name in names}
    if not found:
        raise RecordError(f"no record in {options.records} yet: measure a node first")
    print(*(told.runs(found[options.node]) if options.node else told.fleet(found)), sep="\n")
    return _noted(found)


def _show(options: argparse.Namespace) -> int:
    known = _read(options, options.node)
    run = known.run(options.run) if options.run else (known.runs or (None,))[-1]
    if run is None:
        raise RecordError(f"{options.run or 'a run'} is not the id of one run of {options.node}")
    print(json.dumps(run, indent=2) if options.json else "\n".join(told.one(run)))
    return _noted({options.node: known})


def _accept(options: argparse.Namespace) -> int:
    known = _read(options, options.node)
    wanted = [part.strip() for part in options.runs.split(",") if part.strip()]
    runs = comparison.acceptable(known, wanted, options.last)
    entry = entries.accept_entry(options.node, runs, options.by, options.why, timestamp.now())
    store.append(options.records, options.node, entry)
    print(f"{options.node}: {len(runs)} runs are the baseline, by {options.by}: {options.why}")
    return SHOWN


def _compare(options: argparse.Namespace) -> int:
    names = [options.node] if options.node else store.nodes(options.records)
    if not names:
        raise RecordError(f"no record in {options.records} yet: measure a node first")
    other = _read(options, options.other) if options.other else None
    records = {name: _read(options, name) for name in names}
    found = {name: comparison.against(r, options.last, other) for name, r in records.items()}
    if options.json:
        print(json.dumps(found, indent=2))
    for name, document in found.items() if not options.json else ():
        print(*told.comparison(name, document), sep="\n")
    _noted(records)
    return max((_owed(document) for document in found.values()), key=(0, 2, 1).index)


def _owed(document: dict[str, object]) -> int:
    """0 same or better, 1 slower, 2 cannot be said."""
    if document["answer"] == Answer.UNCLEAR.value:
        return UNSAID
    return REFUSED if document["slower"] else SHOWN


def _read(options: argparse.Namespace, node: str) -> Record:
    """A node's record. Raises RecordError when there is none."""
    known = store.read(options.records, node)
    if not (known.entries or known.torn or known.damage):
        raise RecordError(f"{options.records} holds no record of {node}")
    return known


def _noted(found: dict[str, Record]) -> int:
    """Say what is wrong with the files: a torn line is told, a changed one costs the exit code."""
    for name, known in found.items():
        for note in (*known.torn, *known.damage):
            print(f"b200 record: {name}: {note}", file=sys.stderr)
    return REFUSED if any(known.damage for known in found.values()) else SHOWN
