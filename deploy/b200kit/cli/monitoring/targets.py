"""`b200 targets`: what a Prometheus is to scrape, as file_sd or http_sd takes it."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import Command, Refusal
from b200kit.cli.deploys import INVENTORY, inventory_of
from b200kit.monitoring import files
from b200kit.monitoring.targets import Member, targets, unread
from b200kit.operations import monitored
from b200kit.operations.inventory_process import InventoryRefused
from b200kit.run import console

DONE, REFUSED = 0, 1
CODES = {DONE: "done", REFUSED: "the inventory cannot be read, or no node offers metrics"}


def members(named: Path | None) -> list[Member]:
    """The nodes; what nobody will read is said on stderr. Raises Refusal."""
    inventory = inventory_of(named)
    try:
        found = monitored.members(inventory)
    except InventoryRefused as error:
        raise Refusal("\n".join(error.lines), REFUSED) from None
    if not targets(found):
        message = f"{inventory}: no node offers metrics: give `monitoring` (docs/monitor.md)"
        raise Refusal(message, REFUSED)
    console.err(*unread(found))
    return found


@click.command("targets", cls=Command, exit_codes=CODES)
@INVENTORY
def command(inventory: Path | None) -> int:
    """Print the targets of the site's nodes as JSON, for file_sd or http_sd.

    One for each source of metrics: the node, its gateway, each replica, node_exporter and DCGM's
    exporter where the inventory has them. Nothing is connected to.
    """
    console.out(files.as_json(targets(members(inventory))).rstrip())
    return DONE
