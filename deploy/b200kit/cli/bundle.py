"""`b200 bundle NODE`: what was observed of a node, without what names the site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from b200kit.cli.command import REPORTS, Command, Refusal
from b200kit.cli.report import find, load
from b200kit.node.lib import timestamp
from b200kit.records import archive, observed_file
from b200kit.records.expected import by_hardware
from b200kit.report.outcome import hosts_of
from b200kit.run import console

NOTHING = 2


@click.command(
    "bundle", cls=Command, exit_codes={0: "written", NOTHING: "nothing was observed, or is written"}
)
@click.argument("node")
@click.option(
    "--run", default="latest", show_default=True, metavar="RUN",
    help="A run's directory or its id.",
)  # fmt: skip
@REPORTS
@click.option("--state", "file", metavar="PATH", help="A recorded node instead of a run's.")
@click.option(
    "--hardware", "name", default="hgx-b200", show_default=True, metavar="NAME",
    help="With --state: a hardware of the catalogue.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("bundle.tar.gz"), show_default=True,
    metavar="PATH", help="The archive; one that is there is not replaced.",
)  # fmt: skip
def command(
    node: str, run: str, reports: Path | None, file: str | None, name: str, output: Path
) -> None:
    """Write an archive of NODE to send to the project; `b200 judge` judges it as the node itself.

    Names, addresses, serial numbers and UUIDs are replaced, and every word that b200kit does not
    know.
    """
    try:
        state, expected = _of_file(file, name) if file else _of_run(node, run, reports)
        found = archive.sanitise(state, expected, [node])
        archive.write(output, found)
    except (OSError, ValueError) as error:
        raise Refusal(error, NOTHING) from None
    console.out(f"{output}: {sum(found.counts.values())} replaced; read it before you send it")


def _of_file(file: str, name: str) -> tuple[dict[str, Any], Any]:
    today = {"today": timestamp.today()}
    return _observed(observed_file.read(file).state, file), {**today, **by_hardware(name)}


def _of_run(node: str, run: str, reports: Path | None) -> tuple[dict[str, Any], Any]:
    folder = find(run, reports)
    hosts = hosts_of(load(folder))
    if node not in hosts:
        raise ValueError(f"{node} is no node of {folder}: {', '.join(hosts)}")
    host = hosts[node]
    known = host if isinstance(host, dict) else {}
    expected = known.get("expectation")
    if not isinstance(expected, dict):
        expected = by_hardware("hgx-b200")
    state = _observed(known.get("state"), f"{node} in {folder}")
    return state, {"today": timestamp.today(), **expected}


def _observed(state: object, where: str) -> dict[str, Any]:
    if not isinstance(state, dict):
        raise ValueError(f"{where}: no observation is there")
    return state
