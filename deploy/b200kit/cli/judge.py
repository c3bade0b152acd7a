"""`b200 judge`: is a recorded node fit to serve? One of a file, or one that comes with b200kit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from b200kit.catalog import hardware
from b200kit.catalog.recognised import Unrecognised, on_bus
from b200kit.cli.command import Command, words
from b200kit.node.checks.judge import judge_vetted, schema_of
from b200kit.node.lib import documents, timestamp
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.plausible import plausible
from b200kit.node.state.view import SCHEMA, StateView
from b200kit.records import archive, examples
from b200kit.records.expected import by_hardware
from b200kit.report.document import clean
from b200kit.report.terminal.lines import Lines
from b200kit.report.terminal.page import check_lines
from b200kit.run import console


def read_json(path: str) -> Any:
    """A JSON file; raises OSError or ValueError."""
    try:
        return documents.parse(Path(path).read_bytes(), documents.LARGE)
    except documents.Malformed as error:
        raise ValueError(f"{path}: {error}") from None


@click.command(
    "judge",
    cls=Command,
    exit_codes={0: "fit", 1: "unfit", 2: "not measured, or the file cannot be read"},
)
@click.argument("state", required=False)
@click.option("--example", "named", metavar="NAME", help="A recorded node that comes with b200kit.")
@click.option("--list", "listed", is_flag=True, help="Show the examples and where each is from.")
@click.option(
    "--hardware", "name", metavar="NAME",
    help="A hardware of the catalog; by default what the node's GPUs are.",
)  # fmt: skip
@click.option("--expect", metavar="FILE", help="An expectation instead of hardware data alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--topology", is_flag=True, help="Print the matrix of the GPUs, too.")
def command(
    state: str | None, named: str | None, listed: bool, name: str | None, expect: str | None,
    as_json: bool, topology: bool,
) -> int:  # fmt: skip
    """Judge the recorded node in the file STATE, a NodeState document as `observe` prints it.

    An archive of `b200 bundle` has its own expectation; --expect goes before it.
    """
    if sum(map(bool, (state, named, listed))) != 1:
        raise click.UsageError("say one of: a file, --example NAME, --list")
    if listed:
        page = Lines(console.width(), console.coloured())
        for example in map(examples.load, examples.names()):
            _origin(page, example)
        page.line("")
        short = (f"{short} for {name}" for short, name in examples.SHORT.items())
        page.hang("", text=f"b200 judge --example NAME; short: {', '.join(short)}")
        console.out(*page.found, colour=True)
        return 0
    try:
        shown, observed, own = _example(named, name) if named else _file(str(state), name)
        expected = read_json(expect) if expect else own
    except (OSError, ValueError, examples.NoExample) as error:
        raise click.UsageError(words(error)) from None
    if isinstance(expected, dict):
        expected = {"today": timestamp.today(), **expected}
    observed = plausible(observed)
    verdict = judge_vetted(expected, observed)
    host = {"outcome": verdict.fit, "state": observed, "expectation": expected}
    if as_json:
        console.document(unstructure(verdict))
        return verdict.exit_status
    host["verdict"] = unstructure(verdict)
    page = Lines(console.width(), console.coloured())
    if named:
        _origin(page, examples.load(named))
        page.line("")
    check_lines(page, clean(shown), host, matrix=topology)
    if named:
        page.line("")
        page.hang("", text="All examples: b200 judge --list")
        page.hang("", text="Your own node: b200 check USER@HOST")
    console.out(*page.found, colour=True)
    return verdict.exit_status


def _file(path: str, name: str | None) -> tuple[str, Any, Any]:
    """A recorded node's name, observation and expectation."""
    observed, own = archive.read(path) or (read_json(path), None)
    return Path(path).stem, observed, own or _by_its_gpus(path, observed, name)


def _example(named: str, name: str | None) -> tuple[str, Any, Any]:
    example = examples.load(named)
    return example.name, example.state, _by_its_gpus(example.name, example.state, name)


def _by_its_gpus(path: str, state: Any, name: str | None) -> dict[str, Any]:
    """An expectation from the data of the hardware named, or else of what the node's GPUs are."""
    if schema_of(StateView(state)) != SCHEMA:
        name = name or hardware.names()[0]  # it is refused as a whole, by any
    try:
        return by_hardware(name or on_bus(state, hardware.machines().values()).name)
    except Unrecognised as error:
        raise Unrecognised(f"{path}: {error}; name it with --hardware") from None


def _origin(page: Lines, example: examples.Example) -> None:
    page.hang(f"{example.name}: ", text=f"{example.kind} ({example.file})")
    for what, source in example.origins():
        page.hang("  ", text=f"{what}: {source}")
