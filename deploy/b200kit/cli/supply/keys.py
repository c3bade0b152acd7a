"""`b200 keys SYSTEM`: the keys of the vendors' repositories, held to pinned fingerprints."""

from __future__ import annotations

from pathlib import Path

import click

from b200kit.catalog import load
from b200kit.cli.command import Command, NewFolder, Refusal
from b200kit.run import console
from b200kit.supply.program import SupplyRefused
from b200kit.supply.vendor_keys import bring

DONE, REFUSED = 0, 1


@click.command(
    "keys",
    cls=Command,
    exit_codes={DONE: "there", REFUSED: "refused, or not fetched"},
)
@click.argument("system")
@click.option(
    "--to", "folder", required=True, type=NewFolder(), metavar="DIR",
    help="`keys/` beside the inventory.",
)  # fmt: skip
@click.option(
    "--from", "given", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="PATH",
    help="A file with the keys, instead of the vendors' own sites.",
)  # fmt: skip
def command(system: str, folder: Path, given: Path | None) -> int:
    """Bring the keys of the repositories that nodes of SYSTEM use with `source = "internet"`.

    Each must have the fingerprint that the catalogue pins. One that is there already stays.
    """
    known = load.load().systems
    if system not in known:
        raise Refusal(f'no repositories are known for "{system}", but for {", ".join(known)}', 2)
    refused = []
    for preset in known[system].repositories:
        try:
            done = "brought" if bring(preset, folder, given) else "there already"
            console.err(f"{preset.name}: {preset.fingerprint}, {done}")
        except SupplyRefused as error:
            refused.append(str(error))
    console.err(*refused[1:])
    if refused:
        raise Refusal(refused[0], REFUSED)
    return DONE
