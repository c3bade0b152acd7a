"""Lines for a terminal of any width: text hangs below where it began, and colour only adds."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from b200kit.report.document import Pairs, clean
from b200kit.report.outcome import Outcome
from b200kit.run.console import COLOURS, PAPER

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

COLUMN = 14
"""Where the text of a host's block begins."""
_MOST_OF_LABEL = 20
Piece = str | tuple[str, str]
"""A text, or a text and its tone."""


class Lines:
    """What is shown, line by line, each at most *width* columns but for paths; `found` has them."""

    def __init__(self, width: int = PAPER, colour: bool = False) -> None:
        # Here and below, as a command that shows no screen starts faster without rich.
        from rich.console import Console
        from rich.theme import Theme

        self.width, self.found = width, list[str]()
        self._console = Console(
            file=StringIO(), width=width,
            color_system="standard" if colour else None, force_terminal=colour,
            no_color=False, highlight=False, markup=False, emoji=False, legacy_windows=False,
            theme=Theme(COLOURS),
        )  # fmt: skip

    @property
    def names(self) -> int:
        """Columns for names, which are cut before a verdict ever is."""
        return self.width * 3 // 10

    def line(self, *pieces: Piece) -> None:
        """One line, cut at the right edge."""
        self._add(self._text(*pieces))

    def whole(self, text: str) -> None:
        """One line, however long: a path, which a person copies."""
        self.found.append(clean(text))

    def hang(self, *first: Piece, text: str, end: str = "") -> None:
        """*text* after *first*, further lines below where it began; *end* where it has room."""
        head = self._text(*first)
        if self.width - head.cell_len < self.width // 3:
            self.line(*first)
            head = self._text("    ")
        rest = self._text((text if text.isprintable() else clean(text)) or "-")
        room = self.width - head.cell_len
        lines = rest.wrap(self._console, room, overflow="fold", no_wrap=False)
        for number, line in enumerate(lines):
            line.rstrip()
            shown = self._text(" " * head.cell_len) if number else head.copy()
            shown.append_text(line)
            room = self.width - shown.cell_len - len(end)
            if end and not number and room >= 2:
                shown.append(" " * room + end)
            self._add(shown)

    def head(self, name: str, outcome: Outcome, text: str = "", end: str = "") -> None:
        """The first line of a node: its name, its outcome in colour, and what is to be said."""
        label = shorten(outcome.label, _MOST_OF_LABEL)
        pieces = (
            f"{shorten(name, self.names)}  ",
            (label, outcome.tone),
            " " * (7 - len(label)) + "  ",
        )
        self.hang(*pieces, text=text, end=end) if text else self.line(*pieces[:2])

    def fact(self, label: str, text: str, end: str = "") -> None:
        """A fact under its label, in the two-column form of a host's block."""
        self.hang(f"  {shorten(label, COLUMN - 4):<{COLUMN - 2}}", text=text, end=end)

    def facts(self, pairs: Pairs) -> None:
        """Several of them."""
        for label, text in pairs:
            self.fact(label, text)

    def action(self, indent: int, advice: str) -> None:
        """What to do, below its cause."""
        if advice:
            self.hang(f"{' ' * indent}-> ", text=advice)

    def table(self, rows: Sequence[Sequence[str]], *, left: int, right: frozenset[int]) -> None:
        """Rows below a head as aligned columns from column *left*, *right* ones right-aligned.

        Where the line is too short for them, cells go on below, and no word is broken: of a table
        that needs it each row is a text.
        """
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        head, *body = rows = [[clean(cell) for cell in row] for row in rows]
        columns = list(zip(*rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        least = [max(len(word) for cell in c for word in (cell.split() or [""])) for c in columns]
        room = self.width - left
        gap = next((gap for gap in (3, 2) if sum(widths) + gap * len(widths[1:]) <= room), 1)
        room -= gap * len(widths[1:])
        if sum(least) > room:
            for first, *rest in body:
                texts = (
                    f"{name} {cell}" for name, cell in zip(head[1:], rest, strict=True) if cell
                )
                self.hang(f"{'':<{left}}{first}  ", text="; ".join(texts))
            return
        while sum(widths) > room:
            spare = [width - low for width, low in zip(widths, least, strict=True)]
            widths[max(range(len(widths)), key=lambda i: (spare[i] > 0, widths[i]))] -= 1
        grid = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
        for i, width in enumerate(widths):
            grid.add_column(justify="right" if i in right else "left", width=width)
        for row in rows:
            grid.add_row(*map(Text, row))
        self._add(Padding(grid, (0, 0, 0, left)))

    def _text(self, *pieces: Piece) -> Text:
        from rich.text import Text

        return Text.assemble(*pieces, no_wrap=True, overflow="crop")

    def _add(self, shown: RenderableType) -> None:
        with self._console.capture() as printed:
            self._console.print(shown)
        self.found += (line.rstrip() for line in printed.get().rstrip("\n").split("\n"))


def shorten(text: str, room: int) -> str:
    """*text* cut to *room* columns, with dots where it was cut."""
    return text if len(text) <= room else f"{text[: max(room - 3, 0)]}..."[:room]
