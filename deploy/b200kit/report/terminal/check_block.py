"""A judged host, of check.py or of `b200 judge`: one line if fit, if not what blocks it.

Where the GPUs' connections are at fault, or were not all read, their matrix follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.report.content.facts import (
    driver,
    fabric_short,
    gpus_line,
    links_line,
    numa_short,
    observed,
)
from b200kit.report.content.findings import findings_of
from b200kit.report.content.graph import Topology
from b200kit.report.content.machine import machine_of
from b200kit.report.document import read
from b200kit.report.outcome import outcome_of
from b200kit.report.terminal.lines import WIDTH, ends, paint, shorten, wrap
from b200kit.report.terminal.shared_lines import cause, finding_lines, took
from b200kit.report.terminal.topology_matrix import topology_is_in_doubt, topology_lines


def check_lines(name: str, host: object, colour: bool, *, matrix: bool = False) -> Iterator[str]:
    """Yield a judged host: one line if fit, what blocks it if not; its `matrix` on request."""
    outcome, graph = outcome_of(host), machine_of(host).graph
    label = f"{shorten(outcome.label, 40):<7}"
    head = f"{name}  {label}  "
    blocking = [f for f in findings_of(read(host, "verdict")) if f.blocks]
    if outcome.tone == "good" or not (blocking or cause(host)):
        one = head + "  ".join(_facts(host, graph))
        lines = [one] if len(one) <= WIDTH else wrap(head, "; ".join(_facts(host, graph)))
        span = took(host)
        if len(lines) == 1 and len(one) + len(span) + 2 <= WIDTH:
            lines = [ends(one, span)]
        headed = False
    else:
        lines = wrap(head, cause(host) or blocking[0].summary)
        headed = not cause(host)
    yield lines[0].replace(label, paint(label, outcome.tone, colour), 1)
    yield from lines[1:]
    yield from finding_lines(host, len(name) + 2, colour, label=9, headed=headed)
    doubt = outcome.tone != "good" and observed(host) and topology_is_in_doubt(graph)
    if matrix or doubt:
        yield from topology_lines(graph, indent=2, colour=colour)


def _facts(host: object, graph: Topology) -> list[str]:
    """Return the node in five short facts, or why there are none."""
    if not observed(host):
        return [gpus_line(host, graph)]
    return [
        gpus_line(host, graph).replace("NVIDIA ", ""),
        links_line(graph).replace(" links up", " links"),
        f"fabric {fabric_short(graph)}",
        f"NUMA {numa_short(graph)}",
        f"driver {driver(host)}",
    ]
