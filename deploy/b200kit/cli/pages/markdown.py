"""Markdown that every reference page is made of. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def first_line(thing: object) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().partition("\n")[0]


def plain(text: str) -> str:
    """Text of a page for a terminal: without marks of code, and links as what they are called."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
