"""The fleet now as one screen: figures first, then what needs a person, then the sound nodes."""

from __future__ import annotations

from b200kit.report.content.now import fleet as words
from b200kit.report.content.now.fleet import FleetNow, FleetRow
from b200kit.report.content.now.node import SERVING
from b200kit.report.document import counted
from b200kit.report.names import hostlist
from b200kit.report.terminal.lines import Lines, Piece, shorten
from b200kit.run.console import PAPER

MOST = 60
"""Lines of one screen where nobody says how many there is room for."""


def screen(
    fleet: FleetNow, *, width: int = PAPER, colour: bool = False, most: int = MOST
) -> list[str]:
    """Lines for a terminal, at most *most*, of which those of the most urgent nodes stand first."""
    page, foot = Lines(width, colour), Lines(width, colour)
    _head(page, fleet)
    if fleet.sound:
        count = counted(len(fleet.sound), "node")
        foot.head(count, SERVING, words.all_sound(fleet))
        foot.hang("  ", text=hostlist(fleet.sound))
    foot.hang("", text=words.as_read(fleet))
    room = max(most - len(page.found) - 1 - len(foot.found) - 2, 3)
    shown, left = Lines(width, colour), list(fleet.rows)
    while left:
        row = Lines(width, colour)
        _row(row, left[0])
        if len(shown.found) + len(row.found) > room:
            break
        shown.found += row.found
        left.pop(0)
    if left:
        more = counted(sum(len(row.names) for row in left), "more node")
        shown.hang("", text=f"and {more}, which --page shows")
    return [*page.found, "", *shown.found, *([""] if shown.found else []), *foot.found]


def _head(page: Lines, fleet: FleetNow) -> None:
    """The fleet's figures, on as many lines as they need, and a line for each rollout."""
    row: list[Piece] = []
    used = 0
    for text, tone in words.figures(fleet):
        if row and used + len(text) > page.width:
            page.line(*row)
            row, used = [], 0
        row += [(text, tone), "  "]
        used += len(text) + 2
    page.line(*row)
    for line in fleet.rollouts:
        page.hang("", text=line)


def _row(page: Lines, row: FleetRow) -> None:
    (first, todo), *others = words.once_each(row.points)
    alone = len(row.names) == 1
    name = shorten(hostlist(row.names), page.names) if alone else f"{len(row.names)} nodes"
    page.head(name, row.outcome, words.told(first, row.when))
    page.action(2, todo)
    for other, todo in others:
        page.hang("  also  ", text=words.told(other, other.when))
        page.action(2, todo)
    if not alone:
        page.hang("  ", text=hostlist(row.names))
