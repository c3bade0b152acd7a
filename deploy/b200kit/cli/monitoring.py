"""`b200 monitoring|targets`: what a site's own Prometheus, Alertmanager and Grafana need."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import Command, Refusal, refusals
from b200kit.cli.deploys import INVENTORY, inventory_of
from b200kit.monitoring import files
from b200kit.monitoring.targets import MonitoredNode, targets, unread
from b200kit.node.lib import durable_files
from b200kit.operations import monitored
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.run import console

DONE, REFUSED = 0, 1
_CODES = {DONE: "done", REFUSED: "the inventory cannot be read, or no node offers metrics"}


def _members(named: Path | None) -> list[MonitoredNode]:
    """The nodes; those that no Prometheus can read are named on stderr. Raises Refusal."""
    inventory = inventory_of(named)
    with refusals(REFUSED, InventoryRefused):
        found = monitored.members(inventory)
    if not targets(found):
        message = f"{inventory}: no node offers metrics: give `monitoring` (docs/monitor.md)"
        raise Refusal(message, REFUSED)
    console.err(*unread(found))
    return found


@click.command("targets", cls=Command, exit_codes=_CODES)
@INVENTORY
def print_targets(inventory: Path | None) -> int:
    """Print the targets of the site's nodes as JSON, for file_sd or http_sd.

    One for each source of metrics: the node, its gateway, each replica, node_exporter and DCGM's
    exporter where the inventory has them. Nothing is connected to.
    """
    console.out(files.as_json(targets(_members(inventory))).rstrip())
    return DONE


@click.command("monitoring", cls=Command, exit_codes=_CODES)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@INVENTORY
def command(folder: Path, inventory: Path | None) -> int:
    """Write what a Prometheus, an Alertmanager and a Grafana need into DIR.

    b200-targets.json, prometheus.yml (three sections to take over), b200-rules.yml,
    alertmanager.yml (its receivers are yours to fill) and dashboards/. What is the same already
    stays as it is.
    """
    wanted = {folder / name: text for name, text in files.files(_members(inventory)).items()}
    with refusals(REFUSED):
        for path, text in wanted.items():
            if not (path.is_file() and path.read_bytes() == text.encode()):
                durable_files.replace(path, text)
                console.out(str(path))
    return DONE
