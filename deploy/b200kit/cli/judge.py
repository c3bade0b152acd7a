"""`b200 judge STATE.json`: is the observed node fit to serve?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from b200kit.catalog import hardware, load
from b200kit.cli.command import Command
from b200kit.node.checks.judge import judge
from b200kit.node.host import settings_table
from b200kit.node.lib import timestamp
from b200kit.node.state import expectation as expectations
from b200kit.records import archive
from b200kit.report.terminal.check_block import check_lines
from b200kit.run import console


def expectation_for(name: str) -> dict[str, Any]:
    """An expectation from hardware data alone: any driver the hardware takes, no services.

    Clock and settings are judged, these by their defaults; nothing else was requested, so
    nothing else is compared.
    """
    data = hardware.load(name)
    count = data["expect"]["gpu_count"]["value"]
    return {
        "schema": expectations.SCHEMA,
        "hardware": data,
        "driver": None,
        "gpu_count": count,
        "services": [],
        "waivers": [],
        "clock_synchronized": True,
        "settings": settings_table.expected(load.load().settings, ()),
        "passport": "keep",
        "bandwidth": "off",
    }


def read_json(path: str) -> Any:
    """A JSON file; raises OSError or ValueError."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply to be read") from error


@click.command(
    "judge",
    cls=Command,
    exit_codes={0: "fit", 1: "unfit", 2: "not measured, or the file cannot be read"},
)
@click.argument("state")
@click.option(
    "--hardware", "name", default="hgx-b200", show_default=True, metavar="NAME",
    help="A hardware of the catalog.",
)  # fmt: skip
@click.option("--expect", metavar="FILE", help="An expectation instead of hardware data alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("--topology", is_flag=True, help="Print the matrix of the GPUs, too.")
def command(state: str, name: str, expect: str | None, as_json: bool, topology: bool) -> int:
    """Judge the recorded node in the file STATE, a NodeState document as `observe` prints it.

    An archive of `b200 bundle` has its own expectation; --expect goes before it.
    """
    try:
        bundled = archive.read(state)
        observed, own = bundled or (read_json(state), None)
        expected = read_json(expect) if expect else own or expectation_for(name)
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if isinstance(expected, dict):
        expected = {"today": timestamp.today(), **expected}
    verdict = judge(expected, observed)
    host = {"outcome": verdict.fit, "state": observed, "expectation": expected}
    if as_json:
        console.document(verdict.to_json())
    else:
        host["verdict"] = verdict.to_json()
        console.out(*check_lines(Path(state).stem, host, colour=False, matrix=topology))
    return verdict.exit_status
