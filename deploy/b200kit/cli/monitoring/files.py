"""`b200 monitoring`: configuration, rules, routes and dashboards for a site's own monitoring."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.cli.command import Command, Refusal
from b200kit.cli.deploys import INVENTORY
from b200kit.cli.monitoring.targets import CODES, DONE, REFUSED, members
from b200kit.monitoring import files
from b200kit.node.lib import durable_files
from b200kit.run import console


@click.command("monitoring", cls=Command, exit_codes=CODES)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@INVENTORY
def command(folder: Path, inventory: Path | None) -> int:
    """Write what a Prometheus, an Alertmanager and a Grafana need into DIR.

    b200-targets.json, prometheus.yml (three sections to take over), b200-rules.yml,
    alertmanager.yml (its receivers are yours to fill) and dashboards/. What is the same already
    stays as it is.
    """
    wanted = {folder / name: text for name, text in files.files(members(inventory)).items()}
    try:
        for path, text in wanted.items():
            if not (path.is_file() and path.read_bytes() == text.encode()):
                durable_files.replace(path, text)
                console.out(str(path))
    except OSError as error:
        raise Refusal(error, REFUSED) from None
    return DONE
