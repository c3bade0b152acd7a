"""Lines that both terminal views share: findings with their action, the cause, the time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from b200kit.report.content.findings import Finding, findings_of
from b200kit.report.document import clean, duration, items, number, read
from b200kit.report.terminal.lines import paint, shorten, wrap


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


def finding_lines(host: object, indent: int, colour: bool) -> Iterator[str]:
    """Yield the findings that did not pass, those that say the same of several GPUs once."""
    pad = " " * indent
    told = [f for f in findings_of(read(host, "verdict")) if f.status != "pass"]
    for _, alike in groupby(told, key=lambda f: (f.check, f.status, f.read)):
        finding, *others = alike
        first, *more = wrap(f"{pad}{shorten(finding.status, 10):<12}", finding.summary)
        yield first.replace(finding.status, paint(finding.status, finding.tone, colour), 1)
        yield from more
        yield from advice_lines(finding, f"{pad}{'':<12}")
        if others:
            subjects = ", ".join(other.subject for other in others)
            yield from wrap(f"{pad}{'':<12}", f"and the same of {subjects}")


def advice_lines(finding: Finding, pad: str) -> Iterator[str]:
    """Yield what to do about a finding, and the evidence for it."""
    if finding.advice:
        yield from wrap(f"{pad}-> ", finding.advice)
    if finding.status != "waived":
        yield from wrap(pad, finding.evidence)
