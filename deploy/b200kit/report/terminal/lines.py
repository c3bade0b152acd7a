"""Lines of at most 100 columns: wrapping, labels, small tables, and colour that only adds."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from b200kit.report.document import clean
from b200kit.run.console import COLOURS, PLAIN

WIDTH = 100
COLUMN = 14  # where the text of a host's block begins


def paint(text: str, tone: str, colour: bool) -> str:
    """Return `text` in the colour of its tone, or untouched when colour is off."""
    code = COLOURS.get(tone)
    return f"\x1b[{code}m{text}\x1b[{PLAIN}m" if colour and code else text


def wrap(first: str, text: str, *, indent: int | None = None) -> list[str]:
    """Return `first` + `text` on lines of WIDTH, the following ones indented to match."""
    first = first if len(first) <= WIDTH // 2 else f"{shorten(first.rstrip(), WIDTH // 2 - 2)}  "
    room = len(first) if indent is None else min(indent, WIDTH // 2)
    return textwrap.wrap(
        clean(text) or "-",
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * room,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def labelled(label: str, text: str) -> list[str]:
    """Return a fact under its label, in the two-column form of a host's block."""
    return wrap(f"  {label:<{COLUMN - 2}}", text)


def ends(left: str, right: str) -> str:
    """Return `left`, and `right` at the right edge, on one line."""
    room = WIDTH - len(right) - 2
    return f"{shorten(left, room):<{room}}  {right}" if right else shorten(left, WIDTH)


def shorten(text: str, room: int) -> str:
    """Return `text` cut to `room` columns, with dots where it was cut."""
    return text if len(text) <= room else f"{text[: max(room - 3, 0)]}..."[:room]


def table(rows: Sequence[Sequence[str]], *, left: int, right: frozenset[int]) -> list[str]:
    """Return rows as aligned columns from column `left`; `right` are the right-aligned ones.

    A cell too wide for its share of the line is cut; nothing wraps inside a table.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    while left + sum(widths) + 3 * (len(widths) - 1) > WIDTH:
        widths[widths.index(max(widths))] -= 1
    out = []
    for row in rows:
        cells = [
            shorten(cell, width).rjust(width) if i in right else shorten(cell, width).ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        out.append((" " * left + "   ".join(cells)).rstrip())
    return out
