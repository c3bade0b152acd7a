"""Lines that both terminal views share: findings with their action, the cause, the time."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.content.findings import groups_of
from b200kit.report.document import clean, duration, items, number, read
from b200kit.report.terminal.lines import paint, shorten, wrap

_LABELS = {"unmeasured": "unknown"}


def cause(host: object) -> str:
    """Return why the host left the run, or nothing."""
    error = read(host, "error")
    return clean(error) if isinstance(error, str) else ""


def took(host: object) -> str:
    """Return how long the host's stages took, or else its observation, or nothing."""
    spans = [number(read(stage, "seconds")) for stage in items(read(host, "stages"))]
    total = sum(span for span in spans if span is not None)
    observed_s = number(read(host, "state", "took_s"))
    return duration(total) if total else "" if observed_s is None else duration(observed_s)


def finding_lines(
    host: object, indent: int, colour: bool, *, label: int = 12, headed: bool = False
) -> Iterator[str]:
    """Yield what did not pass: status in `label` columns, findings, what to do, the evidence.

    When the host is `headed` by its first finding, that is not repeated.
    """
    pad = " " * (indent + label)
    for order, group in enumerate(groups_of(read(host, "verdict"))):
        status = group[0].finding.status
        word = f"{' ' * indent}{_LABELS.get(status, shorten(status, label - 2)):<{label}}"
        for place, similar in enumerate(group):
            if not (headed and order == place == 0):
                lines = wrap(pad if place else word, similar.finding.summary)
                mark = word.strip()
                painted = paint(mark, similar.finding.tone, colour)
                yield lines[0] if place else lines[0].replace(mark, painted, 1)
                yield from lines[1:]
            yield from wrap(pad, similar.also) if similar.also else ()
        yield from wrap(f"{pad}-> ", group[0].finding.advice) if group[0].finding.advice else ()
        for similar in group if status != "waived" else ():
            yield from wrap(pad, similar.finding.evidence)
