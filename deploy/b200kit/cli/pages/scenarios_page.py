"""docs/reference/scenarios.md: every simulated node of the lab, from the scenarios themselves."""

from __future__ import annotations

from typing import Any

from b200kit.catalog import shipped
from b200kit.cli.pages.markdown import table
from b200kit.run.places import SCENARIOS

_HEAD = """\
# Scenarios

Made by `python -m b200kit.cli.reference_pages all`; do not edit.

`b200 lab up 1 --scenario NAME` boots such a node, `b200 lab inject NODE NAME` lets the faults of
the second table begin on a running node. How to write one: [Lab](../lab.md#scenarios).

"""
_INJECT = """
## To inject

The fault begins on a running node and lasts until what cures it happens.

"""


def scenarios_markdown() -> str:
    """The whole page."""
    known = scenarios()
    later = {name: entry for name, entry in known.items() if "later" in entry}
    rows = (_row(name, entry) for name, entry in known.items() if name not in later)
    head = ("scenario", "what it is", "source")
    inject = table(head, (_row(name, entry) for name, entry in later.items()))
    return _HEAD + table(head, rows) + _INJECT + inject


def scenarios() -> dict[str, dict[str, Any]]:
    """Every scenario by its name; none where there is no checkout."""
    return {path.stem: shipped.read(path) for path in sorted(SCENARIOS.glob("*.yaml"))}


def _row(name: str, entry: dict[str, Any]) -> tuple[str, str, str]:
    return f"`{name}`", str(entry["description"]), str(entry.get("source", ""))
