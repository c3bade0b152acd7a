"""A run while it goes on: a line a node, renewed in place; without a terminal one below another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from b200kit.report.document import duration
from b200kit.run import console

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST = 20
"""Nodes that have a line; the others are counted."""


class PlainProgress:
    """Hears what a run says (b200kit/run/console.py), and prints every line as it comes, for logs.

    *spoke*: whether something was said that stays on the screen.
    """

    def __init__(self) -> None:
        self.spoke = False

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def hear(self, message: Mapping[str, Any]) -> None:
        """Print what is a line."""
        if "line" in message:
            console.err(message["line"])
        elif "text" in message:
            parts = (message[key] for key in ("node", "stage", "text", "took"))
            console.progress(*parts)
        self.spoke |= "line" in message or "text" in message

    def stop(self) -> None:
        """Leave the terminal as the result needs it."""


@dataclass
class _NodeLine:
    stage: str = ""
    text: str = ""
    since: float = field(default_factory=time.monotonic)


class LiveProgress(PlainProgress):
    """A spinner a node, with its stage, what is done there and for how long, and a bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner

        super().__init__()
        self._nodes: dict[str, _NodeLine] = {}
        self._bar = ProgressBar(total=None, width=30)
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self._draw, console=Console(stderr=True, highlight=False),
            refresh_per_second=5, transient=True,
        )  # fmt: skip

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def stop(self) -> None:
        """Take the lines away: the result follows."""
        self._live.stop()

    def hear(self, message: Mapping[str, Any]) -> None:
        """Renew the node's line; what is no step of a stage stays above, on the screen."""
        if "line" in message:
            self._say(message["line"])
        elif "of" in message:
            self._bar.update(message["done"], message["of"])
        elif "begins" in message:
            self._nodes[message["node"]] = _NodeLine(message["begins"])
        else:
            self._step(message)

    def _step(self, message: Mapping[str, Any]) -> None:
        name, stage, text = (message[key] for key in ("node", "stage", "text"))
        line = self._nodes.setdefault(name, _NodeLine(stage))
        line.text = text.removeprefix("... ")
        if message["kind"] == console.SAID:
            self._say(f"{name}  {stage:<14} {text}")

    def _say(self, text: str) -> None:
        from rich.text import Text

        self.spoke = True
        self._live.console.print(Text(text))

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table

        rows = Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, None, None, 1, None):
            rows.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
        for cells in self._rows():
            rows.add_row(*cells)
        return Group(rows, self._bar)

    def _rows(self) -> Iterator[tuple[RenderableType, ...]]:
        from rich.text import Text

        now = time.monotonic()
        latest = sorted(self._nodes.items(), key=lambda each: -each[1].since)[:_MOST]
        for name, line in sorted(latest):
            took = duration(now - line.since) if now - line.since >= 2 else ""
            yield self._spinner, Text(name), Text(line.stage), Text(line.text), Text(took)
        if more := len(self._nodes) - len(latest):
            yield "", Text(f"and {more} more"), "", "", ""
