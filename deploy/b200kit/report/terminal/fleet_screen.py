"""The fleet now as one screen: figures first, then what needs a person, then the sound nodes."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.content.now import words
from b200kit.report.content.now.fleet import FleetNow, Row
from b200kit.report.content.now.known import SERVING
from b200kit.report.names import hostlist
from b200kit.report.terminal.lines import WIDTH, paint, shorten, wrap
from b200kit.report.terminal.shared_lines import action_lines, headline

MOST = 60
"""Lines of one screen where nobody says how many there is room for."""
_NAMES = 40


def screen(fleet: FleetNow, *, colour: bool = False, most: int = MOST) -> list[str]:
    """Lines for a terminal, at most *most*, of which those of the most urgent nodes stand first."""
    head, foot = [*_head(fleet, colour), ""], [*_sound(fleet, colour), *wrap("", words.read(fleet))]
    room, left = max(most - len(head) - len(foot) - 2, 3), list(fleet.rows)
    shown: list[str] = []
    while left and len(shown) + len(lines := list(_row(left[0], colour))) <= room:
        shown += lines
        left.pop(0)
    if left:
        count = sum(len(row.names) for row in left)
        shown += wrap(
            "", f"and {count} more node{'s' * (count > 1)} to look at, which --html shows"
        )
    return [*head, *shown, *([""] if shown else []), *foot]


def _head(fleet: FleetNow, colour: bool) -> Iterator[str]:
    """The fleet's figures, on as many lines as they need, and a line for each rollout."""
    rows: list[list[tuple[str, str]]] = [[]]
    for text, tone in words.figures(fleet):
        if sum(len(known) + 2 for known, _ in rows[-1]) + len(text) > WIDTH:
            rows.append([])
        rows[-1].append((text, tone))
    for row in rows:
        yield "  ".join(paint(text, tone, colour) for text, tone in row)
    for line in fleet.rollouts:
        yield from wrap("", line)


def _row(row: Row, colour: bool) -> Iterator[str]:
    (first, todo), *others = words.once_each(row.points)
    name = (
        shorten(hostlist(row.names), _NAMES) if len(row.names) == 1 else f"{len(row.names)} nodes"
    )
    yield from headline(name, row.outcome, words.point(first, row.when), colour)
    yield from action_lines("  ", todo)
    for other, todo in others:
        yield from wrap("  also  ", words.point(other, other.when))
        yield from action_lines("  ", todo)
    if len(row.names) > 1:
        yield from wrap("  ", hostlist(row.names))


def _sound(fleet: FleetNow, colour: bool) -> Iterator[str]:
    if fleet.sound:
        count = len(fleet.sound)
        yield from headline(f"{count} node{'s' * (count > 1)}", SERVING, words.sound(fleet), colour)
        yield from wrap("  ", hostlist(fleet.sound))
