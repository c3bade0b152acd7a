"""docs/reference/cli.md: every command, what it does, its options and its exit codes.

Help texts are those the commands print, descriptions of node commands their modules' docstrings.
Only the exit codes of node commands are a table of their own: nothing else in the code lists them.
"""

from __future__ import annotations

import ast
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import click

from b200kit import cli
from b200kit.cli.command import USAGE, Command
from b200kit.cli.pages.markdown import table
from b200kit.node import cli as node_cli
from b200kit.report import outcome
from b200kit.run.session import ENTRIES

_HEAD = """\
# Commands and exit codes

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

`b200` runs inside a site and hands its deploys to pyinfra, with the entry files below; `node.pyz`
runs on a node. In a checkout `.venv/bin/` is where `make` puts them.

## Entry files

"""

_EXITS = """\

| exit | when |
| --- | --- |
| 0 | every requested node is live, fit, ready or accepted |
| 1 | any other outcome of any node; a refused inventory, or one without a node |
| 2 | check.py, ready.py, burnin.py: nothing is worse than unmeasured; pyinfra refuses its options |

`summary.json` has the `exit_code` of the run, and `fit` and `exit_code` of each host.

## Outcomes

How a node ended a run.

"""
_OPTIONS = """\

## Options of pyinfra

- `-y`: do not ask. Without it pyinfra observes each node, lists the changes, and asks.
- `--dry`: list the changes, and whom each would interrupt. The layout is not planned before the
  driver shows GPUs. Exits as a run; a report is written where a node would fail, or cannot be
  reached.
- `--limit NAME`: only this node; repeat it for several. A name that fits no node is refused, with
  exit code 1; an empty list is the whole fleet. `failed.txt` has the nodes that are not ready:

      pyinfra inventories/prod.py deploy/b200.py -y $(sed 's/^/--limit /' reports/RUN/failed.txt)

- `--data KEY=VALUE`: another value of an inventory key for this run, checked like all others.

## b200

`b200` lists the commands, `b200 COMMAND --help` explains one, `b200 --version` prints the version.
A usage error, or a command that needs a site where none is, is one line with exit code 64. An
interrupted command exits with 130, one whose answer could not be written with 74, one whose reader
left with 141.

"""

_NODE = """\
## node.pyz

One file of standard library and nvidia-ml-py for the node's own Python. The host stage puts it in
`/usr/local/lib/b200kit/node.pyz`, with what Python compiled of it beside it; a run that finds no
program of exactly its own version puts one in `/run/b200kit`. In a checkout, `python3 -m
b200kit.node COMMAND` is the same program. An unknown command exits with 2.

"""

_CONFIG = "2 configuration cannot be used"
_ONE_LINE = "0 done; 1 with one line"
_NODE_EXITS = {
    "observe": "0 even when parts are unmeasured; 2 request not understood",
    "gate": "0 fit; 1 unfit; 2 not measured",
    "bring-up": "0 wherever the node stands; 2 request cannot be used",
    "warm": f"0 warm; 1 not warm; {_CONFIG}",
    "measure": "0 pass; 1 fail; 2 invalid, or configuration cannot be used",
    "bench": f"0 whatever it says, `unmeasured` included; {_CONFIG}",
    "ask": f"0 answered, or why not is in the document; {_CONFIG}",
    "correctness-check": f"0 right; 1 wrong; {_CONFIG}",
    "agent": f"0 its configuration or program was replaced; 1 a part of it failed; {_CONFIG}",
    "look": "0 the node was looked at, whatever was seen; 1 not in time; 2 usage",
    "standing": "0 whatever it says; 2 usage",
    "status": "0 its program was replaced; 1 with one line; 2 usage",
    "hook": f"0 its configuration or program was replaced; {_CONFIG}",
    "share": f"{_ONE_LINE}; 2 usage",
    "renew": f"0 passed, nothing due, or never idle; 1 with one line; {_CONFIG}",
    "quarantine": f"{_ONE_LINE}; 2 usage",
    "slurm-check": "0 fit; 1 unfit, not measured or not judged in time; 2 usage",
    "drain": "0 done, or no gateway runs; 1 with one line; 2 usage",
    "support-bundle": "0 also when parts are missing; 1 secrets could not be read; 2 usage",
    "gpu-daemons": "0 done; 1 refused, with the reason; 2 usage",
    "acceptance-network": "0 whatever it says; 2 the request cannot be read",
    "acceptance-pair": "0 whatever came of it; 2 usage",
    "peers": "0 joined, or a lost member was handled; 1 not joined in time; 2 there is no group",
    "rotation": "0 done, or no gateway runs; 1 with one line; 2 usage",
    "rolling-restart": f"0 all are back; 1 with one line; {_CONFIG}",
    "bandwidth": "0 written, whatever it says; 2 not measured: a replica may run, another "
    "measurement runs, or no GPU answers",
    "acceptance": "0 done; 1 stopped, with one line, and `acceptance run` goes on; 2 refused, with "
    "one line, or usage",
    "put": "0 written; 1 not",
    "note-masked": "0 noted; 1 not",
    "removal": f"{_ONE_LINE}; 2 usage",
    "firewall": f"{_ONE_LINE}; 2 usage",
    "fetch": "0 complete and proven; 1 with one line; 2 usage; 3 with one line, and no other try "
    "can help",
    "weights": "0 whatever it says; 1 not done; 2 usage",
    "weights-server": "0 stopped; 1 it cannot listen; 2 usage",
    "compile-cache": "0 prepared, also when it could not be; 2 usage",
    "packages": _ONE_LINE,
    "apt-trial": "0 whatever apt says; 2 the request cannot be read",
    "driver-log": "0 also when there is no such line; 1 no log can be read",
    "acs-off": "0 off everywhere; 1 with a line for each bridge that stays on",
    "power-limit": "0 as asked on every GPU; 1 with a line for each that is not; 2 usage",
    "docker-cdi": "0 on; 1 with one line, nothing changed",
    "engine-probe": "0 the engine may start; 1 it may not, with one line; 2 usage",
    "gpu-free": "0 free; 1 held, with the holder's name; 2 unknown",
}


def cli_markdown() -> str:
    """The whole page."""
    entries = table(("command", "what it does"), map(_entry_row, ENTRIES))
    codes = _exit_codes()
    exits = table(("command", "exit"), ((f"`b200 {name}`", code) for name, code in codes.items()))
    helps = "\n".join(_help_sections(codes))
    commands = [name for name in node_cli.COMMANDS if not name.startswith("_")]
    rows = table(("command", "what it does", "options", "exit"), map(_node_row, commands))
    outcomes = table(("word", "meaning", "counts as"), map(_outcome_row, outcome.WORDS))
    return "".join(
        (_HEAD, entries, _EXITS, outcomes, _OPTIONS, exits, "\n", helps, "\n", _NODE, rows)
    )


def _outcome_row(word: str) -> tuple[str, str, str]:
    label, _, meaning = outcome.WORDS[word]
    shown = word if label.lower() == word else f"{word} (shown as {label})"
    return shown, meaning, "success" if word in outcome.GOOD else "failure"


def _entry_row(name: str) -> tuple[str, str]:
    """An entry file and the first words of its docstring; only pyinfra can import one."""
    source = (Path(__file__).resolve().parents[3] / name).read_text(encoding="utf-8")
    text = (ast.get_docstring(ast.parse(source)) or "").partition("  pyinfra ")[0]
    return f"`pyinfra INVENTORY deploy/{name} -y`", text.rstrip(":")


def _exit_codes() -> dict[str, str]:
    """Each command of `b200` to its exit codes, in words; 64 stands above the table."""
    return {
        name: "; ".join(f"{c} {text}" for c, text in run.exit_codes.items() if c != USAGE)
        for name, run in leaves()
        if isinstance(run, Command)
    }


def leaves(group: click.Group = cli.b200, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by the words after `b200`."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{above}{word} ")
        elif command:
            yield f"{above}{word}", command


def _help_sections(commands: Iterable[str]) -> list[str]:
    """What each command prints as its help; one section for those that share one."""
    names: dict[str, list[str]] = {}
    for name in commands:
        lines = _help(cli.main, name.split()).splitlines()
        text = "\n".join(line for line in lines if "how this " not in line).strip()
        names.setdefault(text, []).append(f"b200 {name}")
    return [f"### {', '.join(of)}\n\n```text\n{text}\n```\n" for text, of in names.items()]


def _node_row(name: str) -> tuple[str, str, str, str]:
    module, function = node_cli.COMMANDS[name].split(":")
    return (
        f"`node.pyz {name}`",
        _what(name, import_module(module), function),
        _options(import_module(module), function),
        _NODE_EXITS[name],
    )


def _what(name: str, module: ModuleType, function: str) -> str:
    """The first sentence about a command: its function's where a module has several."""
    text = getattr(module, function).__doc__ or ""
    if not text.startswith(f"Command {name}: "):
        text = module.__doc__ or ""
    sentence = re.split(r"\.\s|\.$|\n\n", text)[0]
    return re.sub(rf"^(?:Command |`){name}[^`:]*`?: ", "", sentence)


def _options(module: ModuleType, function: str) -> str:
    """The options that the usage names; the words of a command that has a usage of its own."""
    if not hasattr(module, "argparse"):
        words = getattr(module, "_USAGE", "").removeprefix("usage: ").split(" | ")
        return " ".join(f"`{word}`" for word in words if word)
    usage = _help(getattr(module, function), [])
    named = dict.fromkeys(re.findall(r"\{[^}]+\}|--[a-z][a-z0-9-]*", usage))
    return " ".join(f"`{option}`" for option in named if option != "--help")


def _help(main: Callable[[list[str]], int], words: Sequence[str]) -> str:
    """What `--help` prints, 100 columns wide, without terminal colours."""
    output, environment = io.StringIO(), dict(os.environ)
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    try:
        with redirect_stdout(output), suppress(SystemExit):
            main([*words, "--help"])
    finally:
        for name in ("COLUMNS", "NO_COLOR"):
            os.environ.pop(name)
        os.environ |= environment
    return output.getvalue()
