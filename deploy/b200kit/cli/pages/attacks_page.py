"""docs/reference/attacks.md: who may attack what, what comes of it, and the tests that show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from b200kit.catalog import shipped
from b200kit.cli.pages.markdown import table

SOURCE = Path(__file__).resolve().parents[4] / "tests" / "attacks.yaml"

_HEAD = """\
# Attacks

Made by `python -m b200kit.cli.reference_pages all` from `tests/attacks.yaml`; do not edit.

What is trusted, and what is not defended: [Security](../security.md).
"""


def attacks() -> list[dict[str, Any]]:
    """Attackers with what they try."""
    found: list[dict[str, Any]] = shipped.read(SOURCE)
    return found


def attacks_markdown() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_section, attacks()))


def _section(attacker: dict[str, Any]) -> str:
    rows = (
        (a["try"], a["outcome"], "<br>".join(map(_named, a["tests"]))) for a in attacker["attacks"]
    )
    head = f"\n## From {attacker['from']}\n\nCan {attacker['can']}.\n\n"
    return head + table(("attack", "outcome", "shown by"), rows)


def _named(test: str) -> str:
    return f"`{test}`"
