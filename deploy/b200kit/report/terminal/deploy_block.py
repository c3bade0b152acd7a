"""A host of a deploy in the terminal: outcome, node, stages, findings, replicas, latency."""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.node.lib import cpulist
from b200kit.report.content import records, reprovision, tuning
from b200kit.report.content.conditions import conditions_line
from b200kit.report.content.facts import (
    fabric_line,
    gpus_line,
    links_line,
    numa_lines,
    observed,
    power_line,
    versions,
)
from b200kit.report.content.findings import gate_line
from b200kit.report.content.first import first_of
from b200kit.report.content.latency import STAND_IN, STAND_IN_WHY, latency_of
from b200kit.report.content.machine import machine_of
from b200kit.report.content.serving import gpus_of_replica
from b200kit.report.document import counted, duration, items, number, read, show
from b200kit.report.outcome import outcome_of
from b200kit.report.terminal.lines import COLUMN, WIDTH, ends, labelled, paint, shorten, table, wrap
from b200kit.report.terminal.shared_lines import finding_lines, first_lines, headline, took

_SHOWN_VERSIONS = {"driver", "CUDA", "fabric manager", "engine"}


def block(name: str, host: object, colour: bool) -> Iterator[str]:
    """Yield the block of one host of a deploy: what is wrong and what to do about it, the node,
    what it serves and how fast; the run's own figures last.
    """
    outcome, first = outcome_of(host), first_of(host)
    if first.cause:
        yield from first_lines(name, host, outcome, first, colour)
    else:
        yield from headline(name, outcome, "", colour)
        yield from finding_lines(host, 2, colour)
    if observed(host):
        yield from _node(host)
    elif outcome.word not in ("unreachable", "not reached"):
        yield from labelled("node", gpus_line(host, machine_of(host).graph))
    yield from _layout(host)
    if read(host, "smoke") not in (None, {}) or outcome.word == "live":
        yield from _latency(host, colour)
    yield from records.block(host)
    for label, text in (("tuning", tuning.line(host)), ("repair", reprovision.line(host))):
        yield from labelled(label, text) if text else ()
    yield from _stages(host)
    yield from labelled("run", done) if (done := _done(host)) else ()
    yield ""


def _done(host: object) -> str:
    changes, commands = read(host, "changes"), read(host, "commands")
    done = "no change" if number(changes) == 0 else counted(changes, "change")
    parts = [done if number(changes) is not None else "", took(host)]
    if number(commands) is not None:
        parts.insert(1, counted(commands, "command"))
    return ", ".join(part for part in parts if part)


def _node(host: object) -> Iterator[str]:
    graph = machine_of(host).graph
    yield from labelled("GPUs", gpus_line(host, graph))
    yield from labelled("power", text) if (text := power_line(host)) else ()
    yield from labelled("NVLink", links_line(graph))
    yield from labelled("fabric", fabric_line(graph))
    for i, line in enumerate(numa_lines(host, graph)):
        yield from labelled("" if i else "NUMA", line)
    shown = [f"{name} {text}" for name, text in versions(host) if name in _SHOWN_VERSIONS]
    yield from labelled("versions", "; ".join(shown))
    yield from labelled("gate", gate_line(read(host, "verdict")))


def _stages(host: object) -> Iterator[str]:
    """Yield the stages that did something; those that found nothing to do share one line."""
    quiet, label = [], "stages"
    for stage in items(read(host, "stages")):
        name, status = show(read(stage, "name")), show(read(stage, "status"))
        if status in ("ok", "skipped"):
            quiet.append(name if status == "ok" else f"{name} (skipped)")
            continue
        seconds = number(read(stage, "seconds"))
        head = f"{f'  {label}':<{COLUMN}}{shorten(name, 20):<10}  "
        first, *more = wrap(head, _stage(stage, status))
        span = "" if seconds is None else duration(seconds)
        yield ends(first, span) if len(first) + len(span) + 2 <= WIDTH else first
        yield from more
        label = ""
    if quiet:
        yield from labelled("unchanged", ", ".join(quiet))


def _stage(stage: object, status: str) -> str:
    count, detail = len(items(read(stage, "changes"))), read(stage, "detail")
    changes = counted(count, "change") if count else ""
    text = show(detail) if isinstance(detail, str) else ""
    word = "" if status == "changed" and (changes or text) else status
    return ", ".join(part for part in (word, changes, text) if part)


def _layout(host: object) -> Iterator[str]:
    rows = [["replica", "GPUs", "NUMA node", "CPUs", "port"]]
    for entry in items(read(host, "layout")):
        nodes = ",".join(map(show, items(read(entry, "numa_nodes")))) or "none"
        tail = [nodes, show(read(entry, "cpus")), show(read(entry, "port"))]
        rows.append([show(read(entry, "replica")), gpus_of_replica(entry), *tail])
    if len(rows) > 1:
        head, *body = table(rows, left=COLUMN, right=frozenset())
        yield f"{'  replicas':<{COLUMN}}{head[COLUMN:]}"
        yield from body
    if shared := _repeated([row[3] for row in rows[1:]]):
        yield from labelled(
            "", f"CPUs {shared} serve more than one replica: too few cores for each"
        )


def _repeated(lists: list[str]) -> str:
    try:
        return cpulist.repeated(lists)
    except ValueError:
        return ""


def _latency(host: object, colour: bool) -> Iterator[str]:
    latency = latency_of(host)
    if latency.why:
        yield from labelled("latency", latency.why)
        return
    yield from labelled("latency", f"smoke test: {latency.verdict}; {latency.age}")
    for reason in latency.reasons:
        yield from labelled("", reason)
    if latency.stand_in:
        mark, *more = wrap(f"{'':<{COLUMN}}", f"{STAND_IN}: {STAND_IN_WHY}")
        yield mark.replace(STAND_IN, paint(STAND_IN, "mark", colour))
        yield from more
    corner = f"{STAND_IN}, ms" if latency.stand_in else "ms"
    head = [corner, "P50", "P95", "P99", "max"]
    rows = [head, *([row.name, *row.cells, row.largest] for row in latency.rows)]
    yield from table(rows, left=COLUMN, right=frozenset({1, 2, 3, 4}))
    for note in latency.notes:
        yield from labelled("", note)
    load = dict(latency.load)
    text = (
        f"n = {load['requests (n)']}; {load['rate']}; tokens {load['tokens']}; {load['output']} out"
    )
    yield from labelled("load", text)
    yield from labelled("conditions", conditions_line(read(host, "smoke")))
