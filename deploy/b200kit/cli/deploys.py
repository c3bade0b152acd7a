"""`b200 deploy|ready|repair|...`: pyinfra over an inventory of the site and one of our entry files.

`pyinfra inventories/prod.py deploy/b200.py -y` does the same. In front of it stand the site's own
inventory, a line a node instead of pyinfra's words, and errors of one line.
"""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import click

from b200kit.cli import entry_run
from b200kit.cli.command import JSON, Command
from b200kit.node.state.acceptance import Level
from b200kit.run import places

_FAILED = "a node failed, was refused, or could not be reached"
INVENTORY = click.option(
    "-i", "--inventory", type=click.Path(path_type=Path), metavar="PATH",
    help="Which inventory; else the site's only one, or prod.py.",
)  # fmt: skip
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Print what pyinfra says, too.")
PASSWORD = click.option(
    "-K", "--ask-sudo-password", "asks", is_flag=True,
    help="Ask for the nodes' sudo password once; without a terminal, read it from stdin.",
)  # fmt: skip
JUMP = click.option(
    "-J", "--jump", metavar="[USER@]HOST[:PORT]", help="As ssh -J: the jump host before the nodes."
)
_DATA = click.option(
    "--data", "given", multiple=True, metavar="KEY=VALUE",
    help="Another value of a key of the inventory in this run; may be given again.",
)  # fmt: skip
_DRY = click.option("--dry-run", "dry", is_flag=True, help="Say what it would do; change nothing.")
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask before the first change.")
_DRIVER = click.option(
    "--purge-driver", "driver", is_flag=True, help="The driver and the container toolkit, too."
)
_WEIGHTS = click.option("--weights", is_flag=True, help="The models, too.")
_LEVEL = click.option(
    "--class", "level", type=click.Choice(get_args(Level)), metavar="LEVEL",
    help="smoke (5 min), standard (30 min), acceptance (hours), soak (days); else the inventory's.",
)  # fmt: skip
_BASELINE = click.option(
    "--baseline", is_flag=True, help="Hold nodes to no floor, to make floors of what they reach."
)


def _named(**given: object) -> list[str]:
    """What else is to go, by the options that are given."""
    named = sorted(name for name, is_given in given.items() if is_given)
    return [f"remove={json.dumps(named)}"] if named else []


def _accepted(level: str | None, baseline: bool) -> list[str]:
    """How much is run, and held to what."""
    said = [f"accept_level={level}"] if level else []
    return [*said, *(["acceptance_baseline=true"] if baseline else [])]


@dataclass(frozen=True)
class Deploy:
    """One entry file as a command."""

    entry: str
    does: str
    says: str
    exit_codes: Mapping[int, str] = field(
        default_factory=lambda: {0: "every node came through", 1: _FAILED}
    )
    options: tuple[Callable[..., Any], ...] = (_DRY,)
    # Of its own options, the data that the inventory gets.
    data: Callable[..., list[str]] = list
    # Whether it goes over all nodes where none is named.
    all_nodes: bool = True


DEPLOYS = {
    "ready": Deploy(
        "ready.py",
        "Say whether each node can be provisioned, before anything is changed.",
        "Read-only: hardware, operating system, disks, and the nodes' own apt are asked.",
        {
            0: "every node is ready",
            1: "a node is not ready, or could not be reached",
            2: "nothing is worse than not measured",
        },
        (),
    ),
    "deploy": Deploy(
        "b200.py",
        "Take nodes from a bare OS to a proven, warm, measured server.",
        "Begins with what `b200 ready` does. Run again, it changes nothing; killed, the next run "
        "goes on. Nodes that serve are changed in waves, never below the floor.",
        {0: "every node is live", 1: _FAILED},
    ),
    "rollout": Deploy(
        "b200.py",
        "Show the waves of a change to nodes that serve, then make it.",
        "The same as `b200 deploy`, after its plan was shown and you said yes.",
        {0: "every node is live", 1: _FAILED},
        (_DRY, _YES),
    ),
    "repair": Deploy(
        "reprovision.py",
        "Drain failed nodes, repair and prove them, and return them to service.",
        "One transaction a node; run it twice or kill it, and the next run continues.",
        {0: "every node serves, or has nothing to be done", 1: _FAILED},
    ),
    "accept": Deploy(
        "burnin.py",
        "Load every part of nodes that do not serve, and seal what was measured.",
        "Killed at any moment, the next run goes on. What is sealed lies in acceptance/.",
        {
            0: "every node is accepted",
            1: "a test or the gate failed, or a node was refused or could not be reached",
            2: "nothing is worse than not measured, such as a tool that is not there",
        },
        (_LEVEL, _BASELINE, _DRY),
        _accepted,
    ),
    "find-gpu": Deploy(
        "find_gpu.py",
        "Find the GPU behind wrong answers, on nodes that are drained.",
        "GPUs are moved under the replicas, one place a round, and answers compared.",
        options=(),
    ),
    "remove": Deploy(
        "remove.py",
        "Take b200kit off nodes, after what is lost was shown and you said yes.",
        "Drained first, never below the floor. Units, files, users, settings, apt sources, holds "
        "and packages go; driver, container toolkit and models stay unless they are named.",
        {0: "nothing of b200kit is on these nodes", 1: _FAILED},
        (_DRY, _YES, _DRIVER, _WEIGHTS),
        _named,
        all_nodes=False,
    ),
    "tune": Deploy(
        "tune.py",
        "Find the layout for the goal, on nodes that have no traffic.",
        "Each layout that can be is deployed and its request rate swept to the goodput knee.",
    ),
}


def command_of(name: str) -> click.Command:
    """The click command of a name of DEPLOYS."""
    deploy = DEPLOYS[name]

    def run(
        nodes: tuple[str, ...], inventory: Path | None, verbose: bool, asks: bool, as_json: bool,
        given: tuple[str, ...], dry: bool = False, yes: bool = True, **own: Any,
    ) -> int:  # fmt: skip
        if wrong := next((word for word in given if "=" not in word), None):
            raise click.UsageError(f"--data {wrong} is not KEY=VALUE")
        return run_entry(
            deploy.entry, nodes, inventory, verbose, asks, as_json, dry=dry, asked=not yes,
            data=[*given, *deploy.data(**own)],
        )  # fmt: skip

    run.__doc__ = f"{deploy.does}\n\n{deploy.says}"
    options = (*deploy.options, _DATA, INVENTORY, PASSWORD, VERBOSE, JSON)
    for option in reversed(options):
        run = option(run)
    every = deploy.all_nodes
    words = "[NODE...]" if every else "NODE..."
    run = click.argument("nodes", nargs=-1, metavar=words, required=not every)(run)
    return click.command(name, cls=Command, exit_codes=deploy.exit_codes)(run)


def run_entry(
    entry: str, nodes: tuple[str, ...], inventory: Path | None, verbose: bool, asks: bool,
    as_json: bool, *, dry: bool = False, asked: bool = False, data: Sequence[str] = (),
) -> int:  # fmt: skip
    """Run an entry file over *nodes* of the inventory, all for none; returns its exit code.

    *asked*: show a dry run first, and go on only when a person says so.
    """
    asked = asked and not dry
    if asked and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: -y makes the changes unasked")
    if asked and as_json:
        raise click.UsageError("--json asks nobody: it goes with --dry-run or -y")
    password = sudo_password() if asks else None
    run = entry_run.EntryRun(
        inventory_of(inventory), entry, nodes, verbose, as_json, password, data
    )
    if asked:
        if code := run.go(dry=True):
            return code
        if not click.confirm("Make these changes?", err=True):
            return 0
    return run.go(dry=dry)


def inventory_of(named: Path | None) -> Path:
    """The inventory to work with: as named, the site's only one, or its prod.py."""
    if named is not None:
        return named
    folder = places.home() / places.INVENTORIES
    there = sorted(folder.glob("*.py"))
    usual = folder / "prod.py"
    if usual in there or len(there) == 1:
        return usual if usual in there else there[0]
    if not there:
        raise click.UsageError(f"{folder} has no inventory: write one by b200 init HOST...")
    names = ", ".join(path.name for path in there)
    raise click.UsageError(f"{folder} has {names}: say which by -i")


def sudo_password() -> str:
    """The password that a person types, or the first line of stdin."""
    if sys.stdin.isatty():
        given = getpass.getpass("sudo password on the nodes: ")
    else:
        given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise click.UsageError("no password was given")
    return given
