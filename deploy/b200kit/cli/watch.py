"""`b200 watch`: who serves now under which proof, who does not, why, and what is next."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from b200kit.cli.command import JSON, STORE, Command, page_option, refusals
from b200kit.cli.deploys import INVENTORY, inventory_of
from b200kit.node.lib import durable_files
from b200kit.node.lib.documents import unstructure
from b200kit.operations import standing_feed
from b200kit.report import last_runs
from b200kit.report.content.now import fleet as fleets
from b200kit.report.html import fleet_page
from b200kit.report.terminal import fleet_screen
from b200kit.reprovision import ledger
from b200kit.rollout import underway
from b200kit.run import console, places
from b200kit.store import database

_REFUSED = 2


@click.command(
    "watch",
    cls=Command,
    exit_codes={
        0: "--once: every node serves whole, under a valid proof",
        1: "--once: a replica is out, a proof is expired, or a node is being changed",
        2: "--once: nothing is worse than not known; or the request is refused",
        130: "left by Ctrl-C",
    },
)
@INVENTORY
@click.option(
    "--every", "every_s", type=click.FloatRange(1, 3600), default=10, show_default=True,
    metavar="SECONDS", help="How often each node is asked.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Ask each node once, print, and leave.")
@page_option("a page that is renewed in place each time")
@JSON
@STORE
def command(
    inventory: Path | None, every_s: float, once: bool, page: Path | None, as_json: bool,
    store: Path | None,
) -> int:  # fmt: skip
    """Show the fleet as it stands now: one screen, renewed in place, and one page.

    Each node is asked by one command over a connection that stays open; one that is slow or away
    holds no other. A node that the last run refused is that until a later one judged it. Nothing
    is written on a node but /run/b200kit. Ctrl-C leaves.
    """
    if page and not page.parent.is_dir():
        raise click.UsageError(f"{page.parent} is no directory")
    if as_json and not once:
        raise click.UsageError("--json goes with --once")
    transactions = ledger.Transactions(database.Store(store))
    path = inventory_of(inventory)
    runs = last_runs.LastRuns((places.site() or places.site_of(path)) / "reports")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    refused = refusals(_REFUSED, standing_feed.NotFollowed)
    with refused, standing_feed.Feed(path, 0 if once else every_s) as feed:
        first_s = standing_feed.FIRST_S
        feed.first(first_s if once else min(every_s, first_s))
        now_of = partial(_read, feed, transactions, runs)
        if once:
            fleet = now_of()
            problem = _written(fleet, page)
            if as_json:
                console.err(*problem)
                console.document(unstructure(fleet))
            else:
                console.out(*_screen(fleet), *problem, colour=True)
            return fleet.exit_code
        _follow(feed, now_of, page)
    return 0


def _follow(
    feed: standing_feed.Feed, now_of: Callable[[], fleets.FleetNow], file: Path | None
) -> None:
    """Draw and write each round, until Ctrl-C."""
    fleet = now_of()  # before the screen is taken: what is refused stays readable
    with console.redrawn() as draw:
        while True:
            problem = _written(fleet, file)
            draw([*_screen(fleet), *problem])
            feed.wait(feed.every_s)
            fleet = now_of()


def _read(
    feed: standing_feed.Feed, transactions: ledger.Transactions, runs: last_runs.LastRuns
) -> fleets.FleetNow:
    now = time.time()
    known = feed.known(now)
    planned, rollouts = underway.of(transactions, known)
    return fleets.fleet_now(known, planned, rollouts, now, feed.every_s, runs.refused(known))


def _written(fleet: fleets.FleetNow, file: Path | None) -> list[str]:
    """Renew the page; a line where that fails, as the nodes are shown all the same."""
    try:
        if file:
            durable_files.replace(file, fleet_page.page(fleet))
    except OSError as error:
        return [f"{file} is not renewed: {error.strerror}"]
    return []


def _screen(fleet: fleets.FleetNow) -> list[str]:
    """As high as the terminal, less one for a problem."""
    room = shutil.get_terminal_size().lines - 2 if sys.stdout.isatty() else fleet_screen.MOST
    return fleet_screen.screen(fleet, width=console.width(), colour=console.coloured(), most=room)
