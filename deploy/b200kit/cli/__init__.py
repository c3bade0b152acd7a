"""`b200`: one command for everything. Each sub-command is a module, imported when it runs."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from b200kit import __version__
from b200kit.cli import deferred
from b200kit.cli.command import (
    INTERRUPTED,
    READER_LEFT,
    UNWRITABLE,
    USAGE,
    CommandGroup,
    Refusal,
    words,
)
from b200kit.run import console
from b200kit.run.places import NoSite

GROUPS = {
    "Start here": {
        "init": "write a site's inventory, from what its nodes show",
        "models": "the models that are known, by name",
        "doctor": "is this machine ready to run b200kit?",
        "explain": "what a check, key, outcome or exit code means, and what to do",
        "plan": "how a node should serve a model, and why",
        "lab": "simulated B200 nodes on this machine: up, down, status",
    },
    "Run": {
        "ready": "say whether nodes can be provisioned, before anything is changed",
        "deploy": "take nodes from a bare OS to a proven, warm, measured server",
        "rollout": "show the waves of a change to nodes that serve, then make it",
        "repair": "drain failed nodes, repair and prove them, return them to service",
        "accept": "load every part of nodes that do not serve: is the hardware good?",
        "find-gpu": "find the GPU behind wrong answers",
        "tune": "find the layout for the goal",
        "remove": "take b200kit off nodes, drained first",
    },
    "Inspect": {
        "check": "is a node fit to serve? The site's, or any over SSH",
        "judge": "is a recorded node fit to serve?",
        "ask": "ask the model on a node a question, and see its answer",
        "smoke": "measure the latency of the site's nodes, or of any endpoint",
        "watch": "the fleet now: who serves, who is out, why, and what is next",
        "report": "show the report of the latest run, or of one",
        "record": "measured runs: list, show, accept a baseline, compare",
        "transaction": "nodes under repair: who works on which, and since when",
    },
    "Prove": {
        "proof": "what a node has proven, signed: verify it anywhere",
        "acceptance": "sealed acceptance runs: verify, compare, floors, who is out often",
        "audit": "the log of every action on every node: verify it, show it",
        "golden": "references of golden answers: show, forget a wrong one",
        "quality": "compare the answers of a quantised model with the original's",
        "bundle": "a node's observation to send to the project, anonymised",
    },
    "Supply": {
        "keys": "keys of the vendors' repositories, held to pinned fingerprints",
        "lock": "hash-locked requirements of an engine, for the nodes' Python",
        "mirror": "everything that nodes install, in one signed directory to carry",
        "model": "a model for the site's store, or pinned for nodes that ask the Hub",
        "monitoring": "configuration, alerts and dashboards for Prometheus and Grafana",
        "targets": "what a Prometheus is to scrape, as file_sd or http_sd takes it",
        "completion": "completion for bash, zsh or fish",
    },
}
"""Groups of `b200 --help`: sub-command to its line; each has a module, or is a deploy."""
COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
_DEPLOYS = ("ready", "deploy", "rollout", "repair", "accept", "find-gpu", "tune", "remove")
_SUPPLY = ("keys", "lock", "mirror", "model")
EXAMPLES = {
    "b200 judge --example gpu2-no-nvlink": "a broken node judged, without one",
    "b200 init n01 n02 --model llama-3.3-70b-fp8": "a site of two nodes",
    "b200 deploy": "take them live",
    "b200 check": "are they fit?",
}
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class _Commands(CommandGroup):
    """A group whose members are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of a name, from its module."""
        if cmd_name not in COMMANDS:
            return None
        made: click.Command
        if cmd_name in _DEPLOYS:
            made = import_module("b200kit.cli.deploys").command_of(cmd_name)
            return made
        if cmd_name == "targets":
            made = import_module("b200kit.cli.monitoring").print_targets
            return made
        folder = "supply." if cmd_name in _SUPPLY else ""
        made = import_module(f"b200kit.cli.{folder}{cmd_name}").command
        return made

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command that is called; an unknown name is refused with the names close to it."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of sub-commands, made without importing them."""
        for title, members in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(members.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """An example of each group."""
        with formatter.section("Examples"):
            formatter.write_dl(list(EXAMPLES.items()), col_max=44)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="b200 %(version)s")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="Colour; auto: on a terminal, by NO_COLOR and FORCE_COLOR.",
)  # fmt: skip
def b200(color: str) -> None:
    """Provision, prove and watch nodes with 8 NVIDIA B200. Inside a site, no path is needed."""
    if color != "auto":
        os.environ.pop("NO_COLOR", None)
        os.environ["FORCE_COLOR" if color == "always" else "NO_COLOR"] = "1"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; what cannot be done is one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    console.open_closed()
    if instruction := os.environ.get("_B200_COMPLETE"):
        from b200kit.cli import completion

        with deferred.modules():
            return completion.answer(b200, instruction)
    try:
        with deferred.modules():
            status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        console.abandon(sys.stdout)
        return READER_LEFT
    except OSError as error:
        ours = isinstance(error, console.Unwritable)  # else of click's own words, such as a help
        if not ours and error.errno not in _UNWRITABLE:
            return _refuse(arguments, words(error), USAGE)
        why = str(error.strerror) if ours else f"its output cannot be written: {error.strerror}"
        console.abandon(sys.stdout)
        return _refuse(arguments, why, UNWRITABLE)
    return status


def _run(arguments: Sequence[str]) -> int:
    try:
        _no_slips(arguments)
        # Not click's own main(): it takes a broken pipe for exit code 1, which means "unfit" here.
        with b200.make_context("b200", list(arguments)) as context:
            status: int | None = b200.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _refuse(arguments, error.format_message(), USAGE)
    except NoSite as error:
        return _refuse(arguments, str(error), USAGE)
    except Refusal as error:
        return _refuse(arguments, str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _refuse(arguments, "interrupted", INTERRUPTED)
    return status or 0


def _no_slips(arguments: Sequence[str]) -> None:
    """Refuse "", mostly a shell's variable that is not set: it would stand for the default.

    And a number in another script's digits, which int() takes, and nothing else here.
    """
    for before, word in zip(["b200", *arguments], arguments, strict=False):
        if not word or re.fullmatch(r"--[a-z-]+=", word):
            raise click.UsageError(f"an empty text {'in' if word else 'after'} {word or before}")
        if not word.isascii():
            with suppress(ValueError):
                float(word.partition("=")[2] or word)
                raise click.UsageError(f"{word}: a number has the digits 0 to 9")


def _refuse(arguments: Sequence[str], message: str, exit_code: int) -> int:
    name = f"b200 {arguments[0]}" if arguments and arguments[0] in COMMANDS else "b200"
    line = re.sub(r"\s*\n\s*", " ", message)
    console.err(f"{name}: {line}")
    return exit_code
