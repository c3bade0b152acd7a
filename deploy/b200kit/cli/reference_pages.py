"""Reference pages made from the code, so that they cannot say anything else. Pure but for `main`.

    python -m b200kit.cli.reference_pages > docs/inventory.md
    python -m b200kit.cli.reference_pages checks > docs/checks.md
    python -m b200kit.cli.reference_pages settings > docs/settings.md

tests/unit/cli/test_docs.py holds the files equal to what is made here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from b200kit.catalog import hardware
from b200kit.cli.settings_page import settings_markdown
from b200kit.inventory.keys.problem import Schema, expected, json_schema, model_name, not_none
from b200kit.inventory.keys.types import Keys
from b200kit.inventory.spec import NodeSpec
from b200kit.node.checks.judge import registered
from b200kit.node.state.verdict import Action

_INVENTORY = """\
# Inventory keys

Made by `python -m b200kit.cli.reference_pages > docs/inventory.md`; do not edit.

These are the keys a node may have, in the inventory itself or in its group data
(`inventories/group_data/`). Names that begin with `ssh_` or `_` are pyinfra's own. Paths are those
of the controller; a relative one starts from the directory in which pyinfra is started.

All keys of all nodes are checked before the first connection. An unknown key, a wrong type or a
combination that cannot work is one line that names file, host and key; the exit code is 1 and
nothing was touched. Besides each key for itself, it is refused when

- `driver` is older than the hardware needs, or a branch instead of an exact version;
- `model` or `hardware` is not in the catalog (`models/`, `hardware/`);
- `replicas` times `tensor_parallel` is more than the hardware's GPUs, or neither they nor a `goal`
  are given;
- the model does not fit (with the missing bytes), its heads are not divided by
  `tensor_parallel`, or `max_model_len` is more than it or its cache can take;
- CPUs are given twice, `gpus` says fewer than the hardware has without a waiver, or the attention
  backend cannot keep the asked KV cache format ([serving.md](serving.md#sizing-and-layout));
- `settings` names a setting or a value that is not in [settings.md](settings.md);
- two ports are the same, or `replica_ports` has not one port a replica;
- `weights.server` names nobody, everybody, or a port that is taken;
- the gateway is public without a certificate, two clients have one name, weights or
  `min_available` cannot be ([Gateway](serving.md#gateway));
- a secret names none or several of `env`, `file` and `command`, or cannot be had from there;
- the engine does not take a flag, a value or a variable, its version is unsafe or unknown, or it is
  told what the kit tells it ([Engines](serving.md#engines));
- nodes of a `group` do not agree ([More than one node](serving.md#more-than-one-node));
- a file it names cannot be read, a repository's key has another fingerprint, or a template uses a
  variable that nobody sets.
"""

_CHECKS = """\
# Checks

Made by `python -m b200kit.cli.reference_pages checks > docs/checks.md`; do not edit.

A check looks at one observation of a node ([NodeState](node-state.md)) and says *pass*, *fail* or
*unmeasured*; a finding may be *waived* by name until a date ([Waiver](inventory.md#waiver)). Only
pass and waived let a node go live. A check that raises, or that finds nothing to look at, counts
as unmeasured. The same checks run on the controller, on the node at every boot, and in
`b200 judge`.

Each finding that is not pass asks for one action of this ladder, cheapest first:
{ladder}.
For every check, `tests/corpus/` holds a fault that it must catch, with the action it must ask for.
The tests prove that without the check the faulty node would pass, or that its cause would not be
named.
"""

_EXPECTATIONS = """\
## What is expected of {title}

From `b200kit/catalog/hardware/{name}.yaml`, which also has each figure's source and date.
*measured* was read from a real node by its source, *quoted* is stated by its source, *inferred* is
our reasoning.
"""

_NOT_APPLICABLE = """\
### Checks that are not applicable to {title}

The verdict lists them with the reason, and says nothing about them.
"""


def inventory_markdown(model: type[Keys] = NodeSpec) -> str:
    """docs/inventory.md: every key of *model* and of the mappings inside it."""
    schema = json_schema(model)
    sections = [_INVENTORY, "## A node\n", _keys(schema)]
    for name in dict.fromkeys(_mappings(schema, schema)):
        inner = schema["$defs"][name]
        sections += [
            f"## {name}\n",
            f"{inner['description'].partition(chr(10))[0]}\n",
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
        (f"`{name}`", _expected(key), _default(key), " ".join(key["description"].split()))
        for name, key in schema["properties"].items()
    ]
    return _table(("key", "value", "default", "meaning"), rows)


def _expected(key: Schema) -> str:
    name = _mapping_of(key)
    return expected(key) + (f" ([{name}](#{name.lower()}))" if name else "")


def _default(key: Schema) -> str:
    if "default" not in key:
        return "**required**"
    value = key["default"]
    if value == []:
        return "none"
    return "its defaults" if isinstance(value, dict) else f"`{value!r}`"


def checks_markdown() -> str:
    """docs/checks.md: every check, and the figures of every hardware they are held against."""
    ladder = ", ".join(f"`{action.word}`" for action in Action)
    rows = [(f"`{name}`", _first_line(run)) for name, run in registered().items()]
    sections = [_CHECKS.format(ladder=ladder), _table(("check", "what holds"), rows)]
    for name in hardware.names():
        sections += _hardware(hardware.load(name))
    return "\n".join(sections)


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
    yield _table(("expectation", "value", "how it is known"), rows)
    for name in (name for name in tables if name not in taken):
        yield f"### {name}\n\nBy {tables[name]['unit']}; {tables[name]['kind']}.\n"
        yield _table(("code", "meaning", "action"), _codes(tables[name]["value"]))
    if left_out := document.get("not_applicable"):
        yield _NOT_APPLICABLE.format(title=document["title"])
        yield _table(("check", "why"), [(f"`{name}`", why) for name, why in left_out.items()])


def _value(entry: Mapping[str, Any], other: str) -> str:
    """A figure and its unit; a table is told where it stands."""
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
        meaning = known.get("meaning") or known.get("asks")
        yield f"`{code}`", str(meaning), str(known.get("action", "set by the check")) + lenient


def _show(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else json.dumps(value).strip('"')


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(c.strip() for c in line) + " |\n" for line in lines)


PAGES = {
    "inventory": inventory_markdown,
    "checks": checks_markdown,
    "settings": settings_markdown,
}


def main(argv: list[str]) -> int:
    """Print one page, docs/inventory.md unless another is named."""
    page = PAGES.get(argv[0] if argv else "inventory")
    if page is None:
        sys.stderr.write(f"usage: python -m b200kit.cli.reference_pages [{'|'.join(PAGES)}]\n")
        return 2
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
