"""Lines that all terminal views share: what is wrong and what to do first, findings, the time."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.content.findings import Finding, Similar, groups_of
from b200kit.report.content.first import First
from b200kit.report.document import duration, items, number, read
from b200kit.report.outcome import Outcome
from b200kit.report.terminal.lines import paint, shorten, wrap

_LABELS = {"unmeasured": "unknown"}
_LABEL = 9


def took(host: object) -> str:
    """Return how long the host's stages took, or else its observation, or nothing."""
    spans = [number(read(stage, "seconds")) for stage in items(read(host, "stages"))]
    total = sum(span for span in spans if span is not None)
    observed_s = number(read(host, "state", "took_s"))
    return duration(total) if total else "" if observed_s is None else duration(observed_s)


def headline(name: str, outcome: Outcome, text: str, colour: bool) -> list[str]:
    """Return the first line of a host, its outcome coloured, and what follows of its *text*."""
    label = f"{shorten(outcome.label, 40):<7}"
    lines = wrap(f"{name}  {label}  ", text) if text else [f"{name}  {label}".rstrip()]
    return [lines[0].replace(label.rstrip(), paint(label.rstrip(), outcome.tone, colour), 1),
            *lines[1:]]  # fmt: skip


def first_lines(
    name: str, host: object, outcome: Outcome, first: First, colour: bool
) -> Iterator[str]:
    """Yield what is wrong, below it what to do, who serves, and then all that was found."""
    indent = len(name) + 2
    yield from headline(name, outcome, first.cause, colour)
    yield from action_lines(" " * (indent + _LABEL), first.action)
    yield from serving_lines(indent, first.serving)
    yield from finding_lines(host, indent, colour, above=first.finding)


def action_lines(pad: str, advice: str) -> list[str]:
    """Return what to do, below its cause."""
    return wrap(f"{pad}-> ", advice) if advice else []


def serving_lines(indent: int, serving: str) -> list[str]:
    """Return who serves."""
    return wrap(f"{' ' * indent}{'serving':<{_LABEL}}", serving) if serving else []


def finding_lines(
    host: object, indent: int, colour: bool, *, above: Finding | None = None
) -> Iterator[str]:
    """Yield what did not pass: status, finding, what to do, then what is alike and the evidence.

    *above* is the finding that stands above already, with its action.
    """
    for group in groups_of(read(host, "verdict")):
        yield from _group(group, " " * indent, colour, above)


def _group(group: list[Similar], start: str, colour: bool, above: Finding | None) -> Iterator[str]:
    head, *more = group
    finding, pad = head.finding, start + " " * _LABEL
    if finding != above:
        status = _LABELS.get(finding.status, shorten(finding.status, _LABEL - 2))
        lines = wrap(f"{start}{status:<{_LABEL}}", finding.summary)
        yield lines[0].replace(status, paint(status, finding.tone, colour), 1)
        yield from lines[1:]
        yield from action_lines(pad, finding.advice)
    rest = [head.also, *("; ".join(filter(None, (s.finding.summary, s.also))) for s in more)]
    for place, text in enumerate(filter(None, rest)):
        yield from wrap(pad if place else f"{start}{'also':<{_LABEL}}", text)
    evidence = [similar.finding.evidence for similar in group if finding.status != "waived"]
    for text in dict.fromkeys(evidence):
        yield from wrap(pad, text)
