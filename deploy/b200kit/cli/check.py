"""`b200 check`: is a node fit? The site's by check.py; any by one look over the user's own ssh."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from b200kit.catalog import hardware
from b200kit.catalog.recognised import Unrecognised, on_bus
from b200kit.cli.command import JSON, Command, page_option
from b200kit.cli.deploys import INVENTORY, JUMP, PASSWORD, VERBOSE, run_entry, sudo_password
from b200kit.node.checks import bare
from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.node.state.verdict import Verdict
from b200kit.records.expected import observe_request, without_deployment
from b200kit.report.html.page import render
from b200kit.report.outcome import exit_code
from b200kit.report.terminal.page import lines
from b200kit.run import console, login, places
from b200kit.run.document import RunHead, StageRecord
from b200kit.run.login import Login
from b200kit.run.look import NotSeen, observe

_AT_ONCE = 16


@click.command(
    "check",
    cls=Command,
    exit_codes={
        0: "every node is fit",
        1: "a node is unfit, could not be observed, or is unreachable",
        2: "nothing is worse than not measured",
        3: "every node that is not fit is bare: the GPUs are right, and no driver is there yet",
    },
)
@click.argument("hosts", nargs=-1, metavar="[NODE | [USER@]HOST[:PORT]...]")
@click.option("--local", is_flag=True, help="Check this machine, without SSH.")
@click.option(
    "--hardware", "name", metavar="NAME",
    help="A hardware of the catalogue, instead of what the PCI ids of the GPUs say.",
)  # fmt: skip
@click.option(
    "-F", "--ssh-config", metavar="PATH", help="As ssh -F; by default your own ssh_config."
)
@JUMP
@PASSWORD
@INVENTORY
@VERBOSE
@click.option("--topology", is_flag=True, help="Of several nodes, print each one's GPUs, too.")
@JSON
@page_option("a page with a picture of each machine")
def command(
    hosts: tuple[str, ...], local: bool, name: str | None, ssh_config: str | None, jump: str | None,
    asks: bool, topology: bool, as_json: bool, page: Path | None, inventory: Path | None,
    verbose: bool,
) -> int:  # fmt: skip
    """Observe nodes and judge them. Nothing is changed on a node.

    Inside a site: its nodes, or those named, by the site's inventory. Anywhere: USER@HOST,
    HOST:PORT, or HOST outside a site, over your own ssh and without an inventory; then what
    compares a node with one is not judged. ssh must know each node's host key; a user who is not
    root needs sudo. Options but -K, -i, -v and --json are
    of looks over ssh.
    """
    over_ssh = local or name or ssh_config or jump or topology or page
    away = any(mark in host for host in hosts for mark in "@:")
    if inventory or not (over_ssh or away or places.site() is None):
        if over_ssh:
            raise click.UsageError("-i goes only with NODE, -K, -v and --json")
        return run_entry("check.py", hosts, inventory, verbose, asks, as_json)
    if local == bool(hosts):
        here = "" if places.site() else "; no site is here"
        raise click.UsageError(f"name hosts, or --local for this machine{here}")
    if page and not page.parent.is_dir():
        raise click.UsageError(f"{page.parent} is no directory")
    looked = _logins(hosts, ssh_config, jump)
    known = hardware.machines()
    if name is not None and name not in known:
        raise click.UsageError(f'unknown hardware "{name}"; known: {", ".join(sorted(known))}')
    record = _record(
        looked, partial(_looked_at, name=name, password=sudo_password() if asks else None)
    )
    if page:
        page.write_text(render(record), encoding="utf-8")
    if as_json:
        console.document(record)
    else:
        matrix = topology or len(looked) == 1
        shown = lines(
            record, width=console.width(), colour=console.coloured(), report=str(page or ""),
            matrix=matrix,
        )  # fmt: skip
        console.out(*shown, colour=True)
    return exit_code(record)


def _logins(
    hosts: tuple[str, ...], ssh_config: str | None, jump: str | None
) -> dict[str, Login | None]:
    """Names as the result has them; what stands twice is looked at once."""
    if not hosts:
        return {socket.gethostname(): None}
    if ssh_config and not Path(ssh_config).is_file():
        raise click.UsageError(f"{ssh_config} is no file")
    try:
        found = {host: login.parsed(host) for host in hosts}
        login.jumps(jump or "none")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return {host: replace(way, ssh_config=ssh_config, jump=jump) for host, way in found.items()}


def _record(looked: Mapping[str, Login | None], look: Any) -> dict[str, Any]:
    """A run document of all nodes; one that cannot be looked at costs the others nothing."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        hosts = dict(zip(looked, pool.map(look, looked.values()), strict=True))
    head = RunHead(f"{datetime.now():%Y%m%d-%H%M%S}", "check.py")
    return {**unstructure(head), "hosts": hosts}


def _looked_at(way: Login | None, name: str | None, password: str | None) -> dict[str, Any]:
    """The HostRecord of one node."""
    started, taken = time.monotonic(), StageRecord("check")
    python = sys.executable if way is None else "python3"
    try:
        found = _judged(observe(way, observe_request(), password, python), name)
        taken.status = "ok"
    except NotSeen as error:
        cause = {"cause": error.cause} if error.cause else {}
        found = {"outcome": error.outcome, "stage": "check", "error": str(error), **cause}
    taken.seconds = round(time.monotonic() - started, 3)
    return {"changes": 0, "stages": [unstructure(taken)], **found}


def _judged(state: dict[str, Any], name: str | None) -> dict[str, Any]:
    try:
        data = name or on_bus(state, hardware.machines().values()).name
    except Unrecognised as error:
        why = f"{error}; another host, or --hardware names what it should be"
        return {"outcome": "unmeasured", "error": why, "state": state}
    expectation = without_deployment(data, state)
    bare_verdict = bare.judged(expectation, state)
    verdict = bare_verdict or judge(expectation, state)
    return {
        "outcome": bare.outcome(verdict) if bare_verdict else verdict.fit,
        "error": _first(verdict) or (bare.NO_DRIVER if bare_verdict else None),
        "state": state,
        "expectation": expectation,
        "verdict": unstructure(verdict),
    }


def _first(verdict: Verdict) -> str | None:
    return verdict.blocking[0].summary if verdict.blocking else None
