"""docs/reference/systems.md: what was run on which operating system, and the tests that show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.catalog import shipped, systems
from b200kit.cli.pages.markdown import table

SOURCE = Path(__file__).resolve().parents[4] / "tests" / "systems.yaml"

_HEAD = """\
# Operating systems

Made by `python -m b200kit.cli.reference_pages all` from `deploy/b200kit/catalog/systems/` and
`tests/systems.yaml`; do not edit.

Every other system is refused before anything is changed. No GPU was real on any of them.
"""


def document() -> dict[str, Any]:
    """The words for how something was shown, and the systems with their parts of the road."""
    found: dict[str, Any] = shipped.read(SOURCE)
    return found


def systems_markdown() -> str:
    """The whole page."""
    known = document()
    words = table(("how", "what it means"), known["how"].items())
    refused = [f"{one.name}: {one.refused}.\n" for one in systems.load().values() if one.refused]
    return "\n".join((_HEAD, words, *refused)) + "".join(map(_section, known["systems"]))


def _section(shown: dict[str, Any]) -> str:
    rows = ((part["part"], part["how"], _shown(part)) for part in shown["road"])
    system = systems.load()[shown["system"]]
    of = system.versions
    have = f"systemd {of.systemd}, Python {of.python}, apt {of.apt}, HAProxy {of.haproxy}"
    head = f"\n## {system.name}\n\n{have} ({of.source}).\n\n"
    return head + table(("part of the road", "how", "shown by"), rows)


def _shown(part: dict[str, Any]) -> str:
    """The tests, after the source of what is data; or why there are none."""
    tests = [f"`{test}`" for test in part.get("tests", ())]
    return "<br>".join([part["why"]] if "why" in part else [*_source(part), *tests])


def _source(part: dict[str, Any]) -> list[str]:
    return [part["source"]] if "source" in part else []
