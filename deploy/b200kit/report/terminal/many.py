"""Nodes of a run where there are many: what is alike is shown once, with their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from b200kit.report.content.alike import Alike, good_alike, not_good_alike
from b200kit.report.outcome import Outcome
from b200kit.report.terminal.lines import wrap
from b200kit.report.terminal.shared_lines import action_lines, headline, serving_lines

_INDENT = 2


def folded(hosts: Mapping[str, object], colour: bool) -> Iterator[str]:
    """Yield good nodes by what is the same of them, each with the names and the slowest."""
    for alike in good_alike(hosts):
        yield from _named(alike, alike.outcome, colour)
        for line in alike.figures:
            yield from wrap(" " * _INDENT, line)


def brief(hosts: Mapping[str, object], colour: bool) -> Iterator[str]:
    """Yield other nodes by what is wrong with them, with what to do and who serves."""
    for alike in not_good_alike(hosts):
        yield from _named(alike, alike.outcome, colour)
        yield from action_lines(" " * _INDENT, alike.action)
        yield from serving_lines(_INDENT, alike.serving)
        yield ""


def _named(alike: Alike, outcome: Outcome, colour: bool) -> Iterator[str]:
    count = f"{alike.count} node{'s' * (alike.count > 1)}"
    yield from headline(count, outcome, alike.text, colour)
    yield from wrap(" " * _INDENT, alike.names)
