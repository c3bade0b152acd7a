"""`b200 bundle NODE`: what was observed of a node, without what names the site."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import REPORTS, Command, refusals
from b200kit.cli.report import find, load
from b200kit.node.lib import timestamp
from b200kit.records import archive, observed_file
from b200kit.records.expected import by_its_gpus
from b200kit.records.observed_file import ObservedNode
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
    "--output", type=click.Path(path_type=Path), default=Path("bundle.tar.gz"), show_default=True,
    metavar="PATH", help="The archive; one that is there is not replaced.",
)  # fmt: skip
def command(node: str, run: str, reports: Path | None, file: str | None, output: Path) -> None:
    """Write an archive of NODE to send to the project; `b200 judge` judges it as the node itself.

    Names, addresses, serial numbers and UUIDs are replaced, and every word that b200kit does not
    know.
    """
    with refusals(NOTHING):
        one = observed_file.read(file) if file else _of_run(node, run, reports)
        if not isinstance(one.state, dict):
            raise ValueError(f"{one.name}: no observation is there")
        expected = one.expectation or by_its_gpus(one.state)
        found = archive.sanitise(one.state, {"today": timestamp.today(), **expected}, [node])
        archive.write(output, found)
    console.out(f"{output}: {sum(found.counts.values())} replaced; read it before you send it")


def _of_run(node: str, run: str, reports: Path | None) -> ObservedNode:
    folder = find(run, reports)
    hosts = hosts_of(load(folder))
    if node not in hosts:
        raise ValueError(f"{node} is no node of {folder}: {', '.join(hosts)}")
    host = hosts[node]
    known = host if isinstance(host, dict) else {}
    return ObservedNode(f"{node} in {folder}", known.get("state"), known.get("expectation"))
