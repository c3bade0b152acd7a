"""Reference pages made from the code and its data, so that they cannot say anything else.

    python -m b200kit.cli.reference_pages PAGE
    python -m b200kit.cli.reference_pages all

The first form prints a page, or as `schema` the JSON schema of NodeState. The second one writes
every page for the site (`make docs`; they are in no commit). What a page says of data is the data
itself: a row or a section an entry, by the names that its file has and explains.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from b200kit import cli
from b200kit.catalog import engines, hardware, load, shipped, systems
from b200kit.cli.command import USAGE, Command
from b200kit.converge import stage as stages
from b200kit.inventory.keys.problem import Schema, expected, json_schema, model_name, not_none
from b200kit.inventory.keys.types import Keys
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.judge import registered
from b200kit.node.fabric.states import STATES
from b200kit.node.state import advice, node_schema
from b200kit.node.state.verdict import Action
from b200kit.readiness import checks as readiness
from b200kit.report import outcome
from b200kit.run import connection_fault
from b200kit.run.places import CHECKOUT, PACKAGE, SCENARIOS
from b200kit.run.session import ENTRIES
from b200kit.site.plan import narrow
from b200kit.sizing.goals import GOALS
from b200kit.sizing.kv_cache_formats import KV_FORMATS
from b200kit.stages import pipeline

_FOLDER = CHECKOUT / "docs" / "reference"
_CATALOG = PACKAGE / "catalog"
ATTACKS, SYSTEMS = (CHECKOUT / "tests" / f"{name}.yaml" for name in ("attacks", "systems"))
Entry = Mapping[str, Any]
Fact = tuple[str, str]


# Markdown -----------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def first_line(thing: object) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def plain(text: str) -> str:
    """Text of a page for a terminal: without marks of code, and links as what they are called."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def show(value: object) -> str:
    """A value of a file on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_inner(below)}" for key, below in value.items())
    if isinstance(value, list | tuple | frozenset):
        return ", ".join(map(_inner, sorted(value) if isinstance(value, frozenset) else value))
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)


def _inner(value: object) -> str:
    return f"({show(value)})" if isinstance(value, Mapping) else show(value)


def facts(entry: Entry) -> Iterator[Fact]:
    """What an entry of a file says, each under its name there."""
    yield from ((str(name), show(value)) for name, value in entry.items())


def entries_table(entries: Mapping[Any, Any], head: str) -> str:
    """A row an entry, a column for each name that one of them has; a plain value has none."""
    known = {n: e if isinstance(e, Mapping) else {"": e} for n, e in entries.items()}
    columns = list(dict.fromkeys(name for entry in known.values() for name in entry))
    cells = ([show(e[c]) if c in e else "" for c in columns] for e in known.values())
    names = [name if " " in str(name) else f"`{name}`" for name in known]
    lines = ((name, *row) for name, row in zip(names, cells, strict=True))
    return table((head, *map(str, columns)), lines)


def sections(entries: Mapping[str, Entry]) -> str:
    """A section an entry."""
    return "\n".join(f"## {name}\n\n{table(('', ''), facts(e))}" for name, e in entries.items())


def named(entries: Iterable[Entry], key: str) -> dict[str, Entry]:
    """A list of entries by one of their values."""
    return {e[key]: {n: v for n, v in e.items() if n != key} for e in entries}


def _head(title: str, text: str = "", of: Path | None = None) -> str:
    """The head of a page; one of a file has what that says of itself."""
    made = f"# {title}\n\nMade from the code by `make docs`; do not edit.\n"
    if of:
        lines = takewhile(lambda line: line.startswith("#"), of.read_text("utf-8").splitlines())
        about = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
        made += f"\nOf `{of.relative_to(CHECKOUT)}`:\n\n```text\n{about}\n```\n"
    return f"{made}\n{text}\n" if text else f"{made}\n"


def _catalog(name: str) -> Any:
    return shipped.read(_CATALOG / name)


# Pages --------------------------------------------------------------------------------------------


_INVENTORY = """\
The keys of a node, in the inventory itself or in its group data (`inventories/group_data/`). Names
that begin with `ssh_` or `_` are pyinfra's own, but for `ssh_proxy_jump`: the jump host before a
node, `[USER@]HOST[:PORT]`, more of them with commas. Paths are those of the controller; a relative
one starts from the directory in which pyinfra is started.

All keys of all nodes are checked before the first connection. An unknown key, a wrong type or an
impossible combination is one line that names file, host and key; the exit code is 1 and nothing was
changed. Besides each key by itself, these are refused:

- `driver` older than the hardware needs, or a branch instead of an exact version;
- a `model` or `hardware` that is not in the catalog;
- `replicas` times `tensor_parallel` above the hardware's GPUs, or neither they nor a `goal`;
- a model that does not fit (with the missing bytes), heads that `tensor_parallel` does not divide,
  `max_model_len` above what the model or its cache can take;
- CPUs given twice, `gpus` below the hardware's without a waiver, a KV cache format that the
  attention backend cannot keep ([layout](../layout.md#when-it-is-refused));
- a setting or a value that is not in [settings.md](settings.md);
- two equal ports, or `replica_ports` without one port for each replica;
- `weights.server` that names nobody, everybody, or a used port;
- a public gateway without a certificate, two clients of one name, impossible weights or
  `min_available` ([gateway](../gateway.md));
- a secret that names none or several of `env`, `file` and `command`, or cannot be read;
- a flag, value or variable that the engine does not take, an unsafe or unknown version, a flag that
  b200kit sets itself ([engines](../engines.md));
- nodes of a `group` that do not agree ([groups](../groups.md));
- a file that cannot be read, a repository key with another fingerprint, a template variable that
  nobody sets.
"""
_CHECKS = """\
A check reads one observation of a node ([NodeState](node-state.md)) and returns *pass*, *fail* or
*unmeasured*; a finding may be *waived* by name until a date ([Waiver](inventory.md#waiver)). Only
pass and waived let a node go live. A check that raises, or finds nothing to look at, is unmeasured.
The same checks run on the controller, on the node at every boot, and in `b200 judge`.

Each finding that is not pass requests one action, cheapest first:
{ladder}.
For every check, `tests/corpus/` holds a fault that it must catch, with the action it must request;
the tests prove that without the check the faulty node would pass, or its cause would not be named.
"""
_READINESS = """
## Before the first change

Judged by `deploy/ready.py`, and by `deploy/b200.py` as its first step ([Ready](../ready.md)).

"""
_ADVICE = """
## What to do, by cause

A cause is a check, with the step of the ladder where causes of one check differ by it, or the unit
that does not run. A check that knows more says it itself. Faults of hardware, which are not here,
ask for a step of the ladder: reset the GPU, reboot, power-cycle, replace the part.

"""
_NOT_LOOKED_AT = """
## Not observed

Why a node could not be reached, entered or observed: `cause` in its record, by what ssh, sudo or
the shell said.

"""
_HARDWARE = """
## What is expected of {title}

From `deploy/b200kit/catalog/hardware/{name}.yaml`. *measured* was read from a real node by its
source, *quoted* is stated by its source, *inferred* is our reasoning.

"""


def inventory_markdown(model: type[Keys] = NodeSpec) -> str:
    """docs/reference/inventory.md: every key of *model* and of the mappings inside it."""
    schema = json_schema(model)
    parts = [_head("Inventory keys", _INVENTORY), "## A node\n", _keys(schema)]
    for name in dict.fromkeys(_mappings(schema, schema)):
        inner = schema["$defs"][name]
        about = inner["description"].partition("\n")[0]
        parts += [f"## {name}\n", f"{_linked(about)}\n", _keys(inner)]
    return "\n".join(parts)


def _mappings(root: Schema, schema: Schema) -> Iterator[str]:
    """The models below *schema*, in the order of their first key."""
    for key in schema["properties"].values():
        if name := _mapping_of(key):
            yield from (name, *_mappings(root, root["$defs"][name]))


def _mapping_of(key: Schema) -> str:
    """The model that the value of a key is, or each item of its list; empty for others."""
    value = not_none(key)
    return model_name(value.get("items", value))


def _keys(schema: Schema) -> str:
    rows = []
    for name, key in schema["properties"].items():
        inner = _mapping_of(key)
        value = expected(key) + (f" ([{inner}](#{inner.lower()}))" if inner else "")
        rows.append((f"`{name}`", value, default_of(key), _linked(meaning_of(key))))
    return table(("key", "value", "default", "meaning"), rows)


def keys(root: Schema, schema: Schema, above: str = "") -> Iterator[tuple[str, Schema]]:
    """Every key below *schema* by its dotted name, in the order of the page."""
    for name, key in schema["properties"].items():
        yield f"{above}{name}", key
        if inner := _mapping_of(key):
            yield from keys(root, root["$defs"][inner], f"{above}{name}.")


def meaning_of(key: Schema) -> str:
    """What a key says of itself, on one line."""
    return " ".join(key["description"].split())


def _linked(text: str) -> str:
    """A page that a key's text names, as a link from docs/reference/."""
    linked = re.sub(r"docs/reference/([A-Za-z0-9_-]+)\.md", r"[\1](\1.md)", text)
    return re.sub(r"docs/([A-Za-z0-9_-]+)\.md", r"[\1](../\1.md)", linked)


def default_of(key: Schema) -> str:
    """What a key is where it is not given, in words."""
    if "default" not in key:
        return "**required**"
    value = key["default"]
    if value == []:
        return "none"
    return "its defaults" if isinstance(value, dict) else f"`{value!r}`"


def checks_markdown() -> str:
    """docs/reference/checks.md: every check, and the figures that each hardware is judged by."""
    text = _CHECKS.format(ladder=", ".join(f"`{action.word}`" for action in Action))
    checks, early = (
        table(("check", "what holds"), ((f"`{n}`", first_line(run)) for n, run in known.items()))
        for known in (registered(), readiness.CHECKS)
    )
    causes: dict[str, list[str]] = {}
    for cause, todo in advice.BY_CAUSE.items():
        causes.setdefault(todo, []).append(f"`{cause}`")
    by_cause = table(("cause", "what to do"), ((", ".join(c), t) for t, c in causes.items()))
    faults = ((f"`{fault.code}`", fault.advice) for fault in connection_fault.FAULTS)
    not_reached = table(("code", "what to do"), faults)
    parts = [_head("Checks", text), checks, _READINESS, early, _ADVICE, by_cause, _NOT_LOOKED_AT]
    figures = (part for name in hardware.names() for part in _hardware(name))
    return "".join([*parts, not_reached, *figures])


def _hardware(name: str) -> Iterator[str]:
    """What a hardware's file says; codes and options, which have a meaning each, stand below."""
    document = _catalog(f"hardware/{name}.yaml")
    yield _HARDWARE.format(title=document["title"], name=name)
    own = document["expect"]
    tables = {key: e["value"] for key, e in own.items() if isinstance(e["value"], dict)}
    below = {key: {**own[key], "value": "below"} for key in tables}
    yield entries_table({**own, **below}, "expectation")
    others = {other: {"expectations": same} for other, same in document.get("same_as", {}).items()}
    for title, entries, head in (
        *((f"{key} of {name}", value, "") for key, value in tables.items()),
        (f"As of another hardware: {name}", others, "hardware"),
        (f"Otherwise for one GPU: {name}", document.get("gpus"), "GPU"),
        (f"Checks that do not apply to {name}", document.get("not_applicable"), "check"),
    ):
        if entries:
            yield f"\n### {title}\n\n{entries_table(entries, head)}"


_COMMANDS = """\
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
_NODE = """
## node.pyz

One file of standard library and nvidia-ml-py for the node's own Python. The host stage puts it in
`/usr/local/lib/b200kit/node.pyz`, with what Python compiled of it beside it; a run that finds no
program of exactly its own version puts one in `/run/b200kit`. In a checkout, `python3 -m
b200kit.node COMMAND` is the same program. Alone it
lists its commands, and each prints its own usage.
"""


def cli_markdown() -> str:
    """docs/reference/cli.md: every command, what it does, its options and its exit codes.

    Help texts are those that the commands print.
    """
    codes = {
        f"`b200 {name}`": "; ".join(f"{c} {t}" for c, t in run.exit_codes.items() if c != USAGE)
        for name, run in leaves()
        if isinstance(run, Command)
    }
    same: dict[str, list[str]] = {}
    for name in codes:
        lines = help_of(name.strip("`").split()[1:]).splitlines()
        text = "\n".join(line for line in lines if "how this " not in line).strip()
        same.setdefault(text, []).append(name.strip("`"))
    helps = (f"### {', '.join(of)}\n\n```text\n{text}\n```\n" for text, of in same.items())
    words = (
        (word if label.lower() == word else f"{word} (shown as {label})", meaning,
         "success" if word in outcome.GOOD else "failure")
        for word, (label, _, meaning) in outcome.WORDS.items()
    )  # fmt: skip
    return "".join(
        (
            _head("Commands and exit codes", _COMMANDS),
            table(("command", "what it does"), map(_entry_row, ENTRIES)),
            _EXITS,
            table(("word", "meaning", "counts as"), words),
            _OPTIONS,
            table(("command", "exit"), codes.items()),
            "\n",
            *helps,
            _NODE,
        )
    )


def _entry_row(name: str) -> tuple[str, str]:
    """An entry file and the first words of its docstring; only pyinfra can import one."""
    source = (CHECKOUT / "deploy" / name).read_text(encoding="utf-8")
    text = (ast.get_docstring(ast.parse(source)) or "").partition("  pyinfra ")[0]
    return f"`pyinfra INVENTORY deploy/{name} -y`", text.rstrip(":")


def leaves(group: click.Group = cli.b200, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by the words after `b200`."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{above}{word} ")
        elif command:
            yield f"{above}{word}", command


def help_of(words: Sequence[str]) -> str:
    """What `--help` of a command prints, 100 columns wide, without terminal colours."""
    output, environment = io.StringIO(), dict(os.environ)
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    try:
        with redirect_stdout(output), suppress(SystemExit):
            cli.main([*words, "--help"])
    finally:
        for name in ("COLUMNS", "NO_COLOR"):
            os.environ.pop(name)
        os.environ |= environment
    return output.getvalue()


_STAGES = """\
The order in which `deploy/b200.py` works, with what each module says of itself. What an operator
needs to know is in [Deploy](../deploy.md#stages).
"""
_FABRIC = """\
## States of the fabric stage

A state holds when none of its checks blocks. `share` is the part of `fabric_deadline_s` that it may
last. States whose checks are not applicable to a hardware do not exist there.

"""


def stages_markdown() -> str:
    """docs/reference/stages.md: the pipeline in its order, from the stages' own docstrings."""
    parts = [f"## {name}\n\n{text}\n" for name, text in stage_texts().items()]
    states = {
        state.name: {
            "waits for": state.waits_for,
            "checks": [f"`{check}`" for check in state.checks],
            "helped": state.help is not None,
            "share": f"{state.share:.0%}",
            "action": f"`{state.action.word}`",
            "remedy": state.remedy,
        }
        for state in STATES
    }
    text = "\n".join([_head("Stages", _STAGES), *parts, _FABRIC])
    return text + entries_table(states, "state")


def stage_texts() -> dict[str, str]:
    """Each step of the pipeline, in its order, to what it says of itself."""
    return {
        step.name: str(inspect.getdoc(_module(step.run)))
        if isinstance(step.run, stages.Stage)
        else f"An operation, not a stage. {step.run.text}"
        for step in pipeline.STEPS
    }


def _module(stage: stages.Stage) -> ModuleType:
    """The module that defines a stage."""
    modules = (value for value in vars(pipeline).values() if isinstance(value, ModuleType))
    return next(module for module in modules if any(v is stage for v in vars(module).values()))


def diagnoses_markdown() -> str:
    """docs/reference/diagnoses.md."""
    known = diagnoses()
    head = _head("Diagnoses", of=_CATALOG / "diagnoses.yaml")
    symptoms = entries_table(known["symptoms"], "symptom")
    return f"{head}\n{sections(known['diagnoses'])}\n## Symptoms\n\n{symptoms}"


def diagnoses() -> dict[str, dict[str, Entry]]:
    """What is known of why a node is slow, as the file has it."""
    found: dict[str, dict[str, Entry]] = _catalog("diagnoses.yaml")
    return found


def run_conditions_markdown() -> str:
    """docs/reference/run-conditions.md."""
    known = _catalog("run-conditions.yaml").items()
    parts = (f"\n## {role}\n\n{entries_table(fields, 'field')}" for role, fields in known)
    return _head("Run conditions", of=_CATALOG / "run-conditions.yaml") + "".join(parts)


_NODE_STATE = """\
One observation of a node, schema `b200kit/node-state/1`: what `observe` prints, `b200 judge` reads
and `reports/RUN/HOST.json.gz` keeps under `state`. A *reading* is a plain value or
`{"unmeasured": "reason"}`; a whole part may be one unmeasured reading. `null` means absent on the
node, never unknown. A missing key counts as unmeasured, and so does a value outside what its kind
allows ("implausible"), or one that several entries have where only one may. Memory of GPUs is in
MiB, power in mW, clocks in MHz, temperature in C. How to write one by hand:
[Extend](../extend.md#a-recorded-node).

"""


def node_state_markdown() -> str:
    """docs/reference/node-state.md: every field of an observation, as its description has it."""
    form = (node_schema.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    text = (PACKAGE / "node" / "state" / "node-state.yaml").read_text(encoding="utf-8")
    return f"{_head('NodeState', _NODE_STATE)}{form}\n\n```yaml\n{text}```\n"


_SETTINGS = """\
The settings stage sets each of these on a node. `host.settings` judges, on the controller and at
every boot, whether it is *in force*, from what the kernel or the service manager reports, not from
a file. The next `deploy/b200.py` restores what somebody changed by hand. Only kernel command line
and module options need the one reboot of the run.

As the inventory has them:

    settings = {"iommu": "off", "cstates": "c1", "swappiness": None}

A default *or more* is a floor, as is what overrides it: a node that has more keeps it.

A name or value that is not on this page is refused before the first connection. A finding is
about `setting NAME`, by which a [Waiver](inventory.md#waiver) can name it.
"""
_WHERE = """
## Where they stand on a node

| means | file | put in force by |
|---|---|---|
| sysctl | `/etc/sysctl.d/99-zz-b200kit.conf`, read last | `sysctl -p` of this file alone |
| command line | `/etc/default/grub.d/zz-b200kit.cfg` | `update-grub` and a boot |
| written file | `/etc/tmpfiles.d/b200kit.conf` | `systemd-tmpfiles --create` of this file alone |
| limit of services | `/etc/systemd/system.conf.d/60-b200kit.conf` | `daemon-reload`, a new start |
| limit of people | `/etc/security/limits.d/60-b200kit.conf` | the next login |
| module | `/etc/modprobe.d/b200kit.conf` | `update-initramfs -u` where it exists, and a boot |
| swap | `swap.target` masked; fstab stays as it is | `swapoff -a` |
| unit | `b200-acs.service`, before the fabric manager, at every boot | its start |
| unit | `b200-power.service`, with the persistence daemon | its start, with a driver |

A node without `update-grub` whose command line is right is fine. Where it is wrong, or where GRUB's
configuration is right and the kernel was booted with something else, the run ends at the settings
stage with one line; it does not reboot a node again and again for words that GRUB does not give it.

Limits are left alone on a node whose root may not raise them, such as a container.
"""


def settings_markdown() -> str:
    """docs/reference/settings.md: settings of the operating system, and where they stand."""
    elsewhere = entries_table(_catalog("settings.yaml")["elsewhere"], "what")
    head = _head("Settings of the operating system", _SETTINGS, of=_CATALOG / "settings.yaml")
    by_others = f"\n## Set by other stages\n\n{elsewhere}\n"
    return f"{head}{_WHERE}{by_others}{sections(setting_entries())}"


def setting_entries() -> dict[str, Entry]:
    """Every setting, as the file has it."""
    found: dict[str, Entry] = _catalog("settings.yaml")["settings"]
    return found


_MODELS = """\
How they are used: [Layout](../layout.md).

## Models

What `compare first` names is in fewer bits than the model was published in: a node serves it once
its answers were [compared](../layout.md#quantised-models), or the check is waived.

"""
_GOALS = """
## Goals

`floor_gb` is how many GB of weights each GPU must keep for TP to grow, `doublings` how far TP may
grow beyond what memory requires.

"""
_PROFILES = """
## Engine profiles

What an engine on GPUs is given beyond sizes, in its own words; `engine.flags` stand above it. An
entry without a condition always holds; `spread` is attention by data parallelism. None was measured
by this project.
"""
_FORMATS = """
## KV cache formats by attention backend

Of vLLM 0.33.0 (`supported_kv_cache_dtypes` in its wheel, quoted). Other backends are not judged.

"""
_ADVISORIES = """
## Advisories

The highest `fixed` of an engine is the lowest version that is served.
"""


def models_markdown() -> str:
    """docs/reference/models.md: models, goals, KV cache formats and engine versions."""
    known = load.load().models
    models = {
        name: {key: entry.get(key) or "" for key in ("weights", "source", "revision", "flags")}
        | {"compare first": narrow(known[name])}
        for name, entry in load.model_documents().items()
    }
    levers = {name: _catalog(f"levers/{name}.yaml")["levers"] for name in engines.load()}
    versions = {
        f"{name} {version}": {"flags": len(of.flags), "variables": len(of.environment)}
        for name, engine in engines.load().items()
        for version, of in engine.versions.items()
    }
    parts = [
        _head("Models and engines", _MODELS) + entries_table(models, "model"),
        _GOALS + entries_table({name: vars(goal) for name, goal in GOALS.items()}, "goal"),
        _PROFILES,
        *(f"\n### {n}\n\n{entries_table(named(of, 'name'), 'lever')}" for n, of in levers.items()),
        "\nTokens of prompt and answer where `max_model_len` is not given, by family (else 4096): ",
        f"{show(engines.contexts())}.\n{_FORMATS}{entries_table(KV_FORMATS, 'backend')}",
        f"\n## Engine versions with a list of flags\n\n{entries_table(versions, 'version')}",
        _ADVISORIES,
    ]
    for engine, entries in _catalog("engines/advisories.yaml").items():
        found = entries_table(named(entries, "id"), "advisory") if entries else "None is known.\n"
        parts.append(f"\n### Of {engine}\n\n{found}")
    return "".join(parts)


def scenarios_markdown() -> str:
    """docs/reference/scenarios.md: every simulated node of the lab."""
    known = scenarios()
    now, later = (
        entries_table(
            {n: {k: e.get(k, "") for k in ("description", "source")} for n, e in known.items()
             if ("later" in e) is is_later}, "scenario",
        )
        for is_later in (False, True)
    )  # fmt: skip
    return f"{_head('Scenarios', _SCENARIOS)}{now}{_INJECT}{later}"


_SCENARIOS = """\
`b200 lab up 1 --scenario NAME` boots such a node, `b200 lab inject NODE NAME` lets the faults of
the second table begin on a running node. How to write one: [Lab](../lab.md#scenarios).

"""
_INJECT = """
## To inject

The fault begins on a running node and lasts until what cures it happens.

"""


def scenarios() -> dict[str, dict[str, Any]]:
    """Every scenario by its name; none where there is no checkout."""
    return {path.stem: shipped.read(path) for path in sorted(SCENARIOS.glob("*.yaml"))}


def systems_markdown() -> str:
    """docs/reference/systems.md: what was run on which operating system, and what shows it."""
    known, of_catalog = shipped.read(SYSTEMS), systems.load()
    text = "Every other system is refused before anything is changed. No GPU was real on any.\n"
    parts = [_head("Operating systems", text), entries_table(known["how"], "how")]
    parts += [f"\n{one.name}: {one.refused}.\n" for one in of_catalog.values() if one.refused]
    for shown in known["systems"]:
        system = of_catalog[shown["system"]]
        of = system.versions
        have = f"systemd {of.systemd}, Python {of.python}, apt {of.apt}, HAProxy {of.haproxy}"
        road = entries_table(named(shown["road"], "part"), "part of the road")
        parts.append(f"\n## {system.name}\n\n{have} ({of.source}).\n\n{road}")
    return "".join(parts)


def attacks_markdown() -> str:
    """docs/reference/attacks.md: who may attack what, what comes of it, and what shows it."""
    text = "What is trusted, and what is not defended: [Security](../security.md)."
    parts = [_head("Attacks", text)]
    for by in shipped.read(ATTACKS):
        found = entries_table(named(by["attacks"], "try"), "attack")
        parts.append(f"\n## From {by['from']}\n\nCan {by['can']}.\n\n{found}")
    return "".join(parts)


PAGES = {
    "inventory": inventory_markdown,
    "attacks": attacks_markdown,
    "checks": checks_markdown,
    "cli": cli_markdown,
    "diagnoses": diagnoses_markdown,
    "models": models_markdown,
    "node-state": node_state_markdown,
    "run-conditions": run_conditions_markdown,
    "scenarios": scenarios_markdown,
    "settings": settings_markdown,
    "stages": stages_markdown,
    "systems": systems_markdown,
}


def write(folder: Path) -> None:
    """Write every page into a folder, which is made where it is missing."""
    folder.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        (folder / f"{name}.md").write_text(made(), encoding="utf-8")


def _schema() -> str:
    return json.dumps(node_schema.schema(), indent=1) + "\n"


def main(argv: list[str]) -> int:
    """Print one page or the schema of NodeState, or write all pages."""
    if argv == ["all"]:
        write(_FOLDER)
        return 0
    page = {**PAGES, "schema": _schema}.get(argv[0]) if len(argv) == 1 else None
    if page is None:
        sys.stderr.write(
            f"usage: python -m b200kit.cli.reference_pages all|schema|{'|'.join(PAGES)}\n"
        )
        return 2
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
