"""`b200 judge`: is a recorded node fit to serve? One of a file, or one that comes with b200kit."""

from __future__ import annotations

import click

from b200kit.catalog import recognised
from b200kit.cli.command import JSON, Command, completes, words
from b200kit.node.lib import timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state import plausible
from b200kit.records import examples, expected, observed_file
from b200kit.report.document import clean
from b200kit.report.terminal import lines
from b200kit.report.terminal import page as terminal
from b200kit.run import console


@click.command(
    "judge",
    cls=Command,
    exit_codes={0: "fit", 1: "unfit", 2: "not measured"},
)
@click.argument("state", metavar="[PATH]", required=False)
@click.option(
    "--example", "named", metavar="NAME", shell_complete=completes(lambda: examples.names()),
    help="A recorded node that comes with b200kit.",
)  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show the examples and where each is from.")
@click.option(
    "--hardware", "name", metavar="NAME",
    help="A hardware of the catalogue; by default what the node's GPUs are.",
)  # fmt: skip
@click.option("--expect", metavar="PATH", help="An expectation instead of hardware data alone.")
@JSON
@click.option("--topology", is_flag=True, help="Print the matrix of the GPUs, too.")
def command(
    state: str | None, named: str | None, listed: bool, name: str | None, expect: str | None,
    as_json: bool, topology: bool,
) -> int:  # fmt: skip
    """Judge the recorded node in the file PATH.

    A node's file of a run (.json.gz), what `b200 check --json` printed, an archive of `b200
    bundle`, or a bare NodeState. What the first three were judged by judges them again; --expect
    goes before it. --json prints what such a file holds.
    """
    if sum(map(bool, (state, named, listed))) != 1:
        raise click.UsageError("say one of: a file, --example NAME, --list")
    if listed and as_json:
        known = map(examples.load, examples.names())
        console.document([{"name": e.name, "kind": e.kind, **dict(e.origins())} for e in known])
        return 0
    if listed:
        page = lines.Lines(console.width(), console.coloured())
        for example in map(examples.load, examples.names()):
            _origin(page, example)
        page.line("")
        short = (f"{short} for {name}" for short, name in examples.SHORT.items())
        page.hang("", text=f"b200 judge --example NAME; short: {', '.join(short)}")
        console.out(*page.found, colour=True)
        return 0
    try:
        node = _recorded(named, str(state), name, expect)
    except (OSError, ValueError, examples.NoExample) as error:
        raise click.UsageError(words(error)) from None
    # Here, as its package loads every check: a help, or a wrong option, needs none.
    from b200kit.node.checks.judge import judge_vetted

    verdict = judge_vetted(node.expectation, node.state)
    host = {
        "outcome": verdict.fit, "state": node.state, "expectation": node.expectation,
        "verdict": unstructure(verdict),
    }  # fmt: skip
    if as_json:
        console.document(host)
        return verdict.exit_status
    page = lines.Lines(console.width(), console.coloured())
    if named:
        _origin(page, examples.load(named))
        page.line("")
    terminal.check_lines(page, clean(node.name), host, matrix=topology)
    terminal.explain_line(page, [host])
    if named:
        page.line("")
        page.hang("", text="All examples: b200 judge --list")
        page.hang("", text="Your own node: b200 check USER@HOST")
    console.out(*page.found, colour=True)
    return verdict.exit_status


def _recorded(
    named: str | None, path: str, hardware: str | None, expect: str | None
) -> observed_file.ObservedNode:
    """The node, its observation vetted, and what it is judged by. Raises OSError and ValueError."""
    if named:
        found = examples.load(named)
        node = observed_file.ObservedNode(found.name, found.state)
    else:
        node = observed_file.read(path)
    try:
        own = node.expectation or expected.by_its_gpus(node.state, hardware)
    except recognised.Unrecognised as error:
        where = f"{node.name if named else path}: {error}; --hardware names what it should be"
        raise recognised.Unrecognised(where) from None
    asked = observed_file.document_of(expect) if expect else own
    if isinstance(asked, dict):
        asked = {"today": timestamp.today(), **asked}
    return observed_file.ObservedNode(node.name, plausible.plausible(node.state), asked)


def _origin(page: lines.Lines, example: examples.Example) -> None:
    page.hang(f"{example.name}: ", text=f"{example.kind} ({example.file})")
    for what, source in example.origins():
        page.hang("  ", text=f"{what}: {source}")
