"""A judged host, of check.py or of `b200 judge`: one line if fit, if not what blocks it.

Where the GPUs' connections are at fault, or were not all read, their matrix follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.records.expected import WITHOUT_DEPLOYMENT
from b200kit.report.content.facts import facts_in_short, observed
from b200kit.report.content.findings import findings_of
from b200kit.report.content.first import first_of
from b200kit.report.content.machine import machine_of
from b200kit.report.document import counted, mapping, read, show
from b200kit.report.outcome import is_good, outcome_of
from b200kit.report.terminal.lines import WIDTH, ends, paint, wrap
from b200kit.report.terminal.shared_lines import finding_lines, first_lines, took
from b200kit.report.terminal.topology_matrix import topology_is_in_doubt, topology_lines


def check_lines(name: str, host: object, colour: bool, *, matrix: bool = False) -> Iterator[str]:
    """Yield a judged host: one line if fit, what blocks it if not; its `matrix` on request."""
    graph = machine_of(host).graph
    if is_good(host):
        yield from _fit(name, host, colour)
        yield from finding_lines(host, len(name) + 2, colour)
    else:
        yield from first_lines(name, host, outcome_of(host), first_of(host), colour)
    yield from _left_out(host, len(name) + 2)
    judged = outcome_of(host).word not in ("ready", "not ready")
    doubt = judged and not is_good(host) and observed(host) and topology_is_in_doubt(graph)
    if (matrix and observed(host)) or doubt:
        yield from topology_lines(graph, indent=2, colour=colour)


def _left_out(host: object, indent: int) -> Iterator[str]:
    """What a node without a deployment was judged by, and how much of it needs one."""
    verdict = read(host, "verdict")
    reasons = mapping(read(verdict, "not_applicable")).values()
    count = sum(reason == WITHOUT_DEPLOYMENT for reason in reasons)
    if count:
        name = show(read(host, "expectation", "hardware", "name"))
        passed = sum(f.status == "pass" for f in findings_of(verdict))
        text = f"{passed} passed; {counted(count, 'check')} {WITHOUT_DEPLOYMENT}"
        yield from wrap(" " * indent, f"as {name}: {text}")


def notes(host: object) -> list[str]:
    """Return what is to be known of a node that can be provisioned."""
    passed = [f for f in findings_of(read(host, "verdict")) if f.status == "pass"]
    return [f"{len(passed)} checks", *(f.summary for f in passed if f.action == "monitor")]


def _fit(name: str, host: object, colour: bool) -> Iterator[str]:
    """The node in short facts, and how long the look at it took."""
    outcome, span = outcome_of(host), took(host)
    facts = notes(host) if outcome.word == "ready" else facts_in_short(host)
    label = f"{outcome.label:<7}"
    one = f"{name}  {label}  {'  '.join(facts)}"
    lines = [one] if len(one) <= WIDTH else wrap(f"{name}  {label}  ", "; ".join(facts))
    if len(lines) == 1 and len(one) + len(span) + 2 <= WIDTH:
        lines = [ends(one, span)]
    yield lines[0].replace(label, paint(label, outcome.tone, colour), 1)
    yield from lines[1:]
