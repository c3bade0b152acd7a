"""`b200`: everything that is not a deploy. Each sub-command is a module, imported when it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from b200kit import __version__
from b200kit.cli.command import INTERRUPTED, Refusal
from b200kit.run import console

COMMANDS = {
    "audit": "the log of every action on every node: verify it, show it",
    "bundle": "a node's observation to send to the project, without what names the site",
    "check": "is this node fit to serve? One look over SSH, without an inventory",
    "golden": "references of golden answers: show, forget a wrong one",
    "init": "a site's inventory, from a look at its nodes",
    "judge": "is a recorded node fit to serve?",
    "keys": "keys of the vendors' repositories, held to pinned fingerprints",
    "lab": "simulated B200 nodes on this machine: up, down, status",
    "lock": "hash-locked requirements of an engine, for the nodes' Python",
    "mirror": "everything that nodes install, in one signed directory to carry",
    "model": "a model for the site's store, or pinned for nodes that ask the Hub",
    "monitoring": "configuration, alerts and dashboards for a site's Prometheus and Grafana",
    "plan": "how a node should serve a model, and why",
    "proof": "what a node has proven, signed: verify it anywhere",
    "quality": "answers of a model in fewer bits beside the original's",
    "record": "measured runs: list, show, accept a baseline, compare",
    "report": "show the report of the latest run, or of one",
    "smoke": "latency of any OpenAI-compatible endpoint",
    "targets": "what a Prometheus is to scrape, as file_sd or http_sd takes it",
    "transaction": "nodes under repair: who works on which, and since when",
    "watch": "the fleet now: who serves under which proof, who is out, why, and what is next",
}
"""Sub-command to its line in `b200 --help`; each has a module of its name in this room."""
_IN_FOLDERS = {
    "keys": "supply.keys",
    "lock": "supply.lock",
    "mirror": "supply.mirror",
    "model": "supply.model",
    "watch": "fleet.watch",
    "monitoring": "monitoring.files",
    "targets": "monitoring.targets",
}
READER_LEFT = 141
"""What a shell reports of a program that SIGPIPE ended."""

UNWRITABLE = 74
"""Of sysexits.h: the answer could not be written, such as to a full disk."""


class _Commands(click.Group):
    """A group whose members are imported only when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of a name, from its module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(
            f"b200kit.cli.{_IN_FOLDERS.get(cmd_name, cmd_name)}"
        ).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command that is called; an unknown name is refused with the names close to it."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of sub-commands, made without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="b200 %(version)s")
def b200() -> None:
    """Judge, plan, measure and look things up; deploys are run with pyinfra."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code; what cannot be done is one line on stderr."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        console.abandon(sys.stdout)
        return READER_LEFT
    except console.Unwritable as error:
        console.abandon(sys.stdout)
        return _refuse(arguments, str(error.strerror), UNWRITABLE)
    return status


def _run(arguments: Sequence[str]) -> int:
    try:
        _no_slips(arguments)
        # Not click's own main(): it takes a broken pipe for exit code 1, which means "unfit" here.
        with b200.make_context("b200", list(arguments) or ["--help"]) as context:
            status: int | None = b200.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _refuse(arguments, error.format_message(), error.exit_code)
    except Refusal as error:
        return _refuse(arguments, str(error), error.exit_code)
    except KeyboardInterrupt:
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
