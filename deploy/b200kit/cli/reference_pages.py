"""Reference pages made from the code, so that they cannot say anything else. Pure but for `main`.

    python -m b200kit.cli.reference_pages PAGE
    python -m b200kit.cli.reference_pages all

The first form prints a page. The second one writes every page for the site (`make docs`; they are
in no commit), and the JSON schema of NodeState.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from b200kit.catalog import hardware
from b200kit.cli import node_schema
from b200kit.cli.pages.attacks_page import attacks_markdown
from b200kit.cli.pages.commands_page import cli_markdown
from b200kit.cli.pages.markdown import first_line, table
from b200kit.cli.pages.measuring_pages import diagnoses_markdown, run_conditions_markdown
from b200kit.cli.pages.models_page import models_markdown
from b200kit.cli.pages.node_state_page import node_state_markdown
from b200kit.cli.pages.scenarios_page import scenarios_markdown
from b200kit.cli.pages.settings_page import settings_markdown
from b200kit.cli.pages.stages_page import stages_markdown
from b200kit.cli.pages.systems_page import systems_markdown
from b200kit.inventory.keys.problem import Schema, expected, json_schema, model_name, not_none
from b200kit.inventory.keys.types import Keys
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.judge import registered
from b200kit.node.state import advice
from b200kit.node.state.verdict import Action
from b200kit.readiness import checks as readiness
from b200kit.run import connection_fault

_FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference"

_INVENTORY = """\
# Inventory keys

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

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
# Checks

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

A check reads one observation of a node ([NodeState](node-state.md)) and returns *pass*, *fail* or
*unmeasured*; a finding may be *waived* by name until a date ([Waiver](inventory.md#waiver)). Only
pass and waived let a node go live. A check that raises, or finds nothing to look at, is unmeasured.
The same checks run on the controller, on the node at every boot, and in `b200 judge`.

Each finding that is not pass requests one action, cheapest first:
{ladder}.
For every check, `tests/corpus/` holds a fault that it must catch, with the action it must request;
the tests prove that without the check the faulty node would pass, or its cause would not be named.
"""

_READINESS = """\
## Before the first change

Judged by `deploy/ready.py`, and by `deploy/b200.py` as its first step ([Ready](../ready.md)).
"""

_ADVICE = """\
## What to do, by cause

A cause is a check, with the step of the ladder where causes of one check differ by it, or the unit
that does not run. A check that knows more says it itself. Faults of hardware, which are not here,
ask for a step of the ladder: reset the GPU, reboot, power-cycle, replace the part.
"""
_NOT_LOOKED_AT = """\
## Not looked at

Why a node could not be reached, entered or observed: `cause` in its record, by what ssh, sudo or
the shell said.
"""
_EXPECTATIONS = """\
## What is expected of {title}

From `deploy/b200kit/catalog/hardware/{name}.yaml`, which also has each figure's source and date.
*measured* was read from a real node by its source, *quoted* is stated by its source, *inferred* is
our reasoning.
"""

_NOT_APPLICABLE = """\
### Checks that are not applicable to {title}

The verdict lists them with the reason and does not judge them.
"""


def inventory_markdown(model: type[Keys] = NodeSpec) -> str:
    """docs/reference/inventory.md: every key of *model* and of the mappings inside it."""
    schema = json_schema(model)
    sections = [_INVENTORY, "## A node\n", _keys(schema)]
    for name in dict.fromkeys(_mappings(schema, schema)):
        inner = schema["$defs"][name]
        sections += [
            f"## {name}\n",
            f"{_linked(inner['description'].partition(chr(10))[0])}\n",
            _keys(inner),
        ]
    return "\n".join(sections)


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
    rows = [
        (f"`{name}`", _expected(key), default_of(key), _linked(meaning_of(key)))
        for name, key in schema["properties"].items()
    ]
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


def _expected(key: Schema) -> str:
    name = _mapping_of(key)
    return expected(key) + (f" ([{name}](#{name.lower()}))" if name else "")


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
    ladder = ", ".join(f"`{action.word}`" for action in Action)
    rows = [(f"`{name}`", first_line(run)) for name, run in registered().items()]
    sections = [_CHECKS.format(ladder=ladder), table(("check", "what holds"), rows)]
    early = [(f"`{name}`", first_line(run)) for name, run in readiness.CHECKS.items()]
    sections += [_READINESS, table(("check", "what holds"), early)]
    sections += [_ADVICE, table(("cause", "what to do"), _advice())]
    faults = [(f"`{fault.code}`", fault.advice) for fault in connection_fault.FAULTS]
    sections += [_NOT_LOOKED_AT, table(("code", "what to do"), faults)]
    for name in hardware.names():
        sections += _hardware(hardware.load(name))
    return "\n".join(sections)


def _advice() -> list[tuple[str, str]]:
    """Each advice once, with all its causes."""
    causes: dict[str, list[str]] = {}
    for cause, text in advice.BY_CAUSE.items():
        causes.setdefault(text, []).append(f"`{cause}`")
    return [(", ".join(names), text) for text, names in causes.items()]


def _hardware(document: Mapping[str, Any]) -> Iterator[str]:
    entries = document["expect"]
    taken = {key: other for other, keys in document.get("same_as", {}).items() for key in keys}
    tables = {name: e for name, e in entries.items() if isinstance(e["value"], dict)}
    yield _EXPECTATIONS.format(title=document["title"], name=document["name"])
    rows = [
        (f"`{name}`", _value(entry, taken.get(name, "")), _known(entry, taken.get(name, "")))
        for name, entry in entries.items()
        if name not in tables or name in taken
    ]
    yield table(("expectation", "value", "how it is known"), rows)
    for name in (name for name in tables if name not in taken):
        yield f"### {name}\n\nBy {tables[name]['unit']}; {tables[name]['kind']}.\n"
        yield table(("code", "meaning", "action"), _codes(tables[name]["value"]))
    if gpus := document.get("gpus"):
        yield "### Otherwise for one GPU\n"
        yield table(("GPU", "figures", "checks that do not apply"), _by_gpu(gpus))
    if left_out := document.get("not_applicable"):
        yield _NOT_APPLICABLE.format(title=document["title"])
        yield table(("check", "why"), [(f"`{name}`", why) for name, why in left_out.items()])


def _by_gpu(gpus: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each GPU of one hardware, and what is otherwise for it."""
    for pci, gpu in gpus.items():
        figures = [f"`{key}` {_value(entry, '')}" for key, entry in gpu["expect"].items()]
        left_out = [f"`{check}`" for check in gpu["not_applicable"]]
        yield f"{gpu['title']} ({pci})", "; ".join(figures), ", ".join(left_out)


def _value(entry: Mapping[str, Any], other: str) -> str:
    """A figure and its unit; a table is named where it stands."""
    if isinstance(entry["value"], dict):
        return f"the table of {other}"
    return f"{_show(entry['value'])} {entry['unit']}"


def _known(entry: Mapping[str, Any], other: str) -> str:
    """How a figure is known, and of which hardware when it was taken over."""
    return f"{entry['kind']}, for {other}" if other else str(entry["kind"])


def _codes(table: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for code, entry in table.items():
        known = entry if isinstance(entry, Mapping) else {"meaning": entry}
        lenient = ", unless it says nonfatal" if known.get("nonfatal_ok") else ""
        meaning = known.get("meaning") or known.get("asks") or known.get("remedy") or ""
        yield f"`{code}`", str(meaning), str(known.get("action", "set by the check")) + lenient


def _show(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else json.dumps(value).strip('"')


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


def main(argv: list[str]) -> int:
    """Print one page or the schema, or write all of them."""
    if argv == ["all"]:
        write(_FOLDER)
        node_schema.STORED.write_text(node_schema.schema_json(), encoding="utf-8")
        return 0
    page = {**PAGES, "schema": node_schema.schema_json}.get(argv[0]) if len(argv) == 1 else None
    if page is None:
        sys.stderr.write(
            f"usage: python -m b200kit.cli.reference_pages all|schema|{'|'.join(PAGES)}\n"
        )
        return 2
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
