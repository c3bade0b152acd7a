"""The run as one HTML page that needs nothing else: no script, no network, no other file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from b200kit.report.charts.baseline_timeline import timeline_of
from b200kit.report.charts.chart import SHAPES, marks
from b200kit.report.charts.latency_charts import distributions, over_time
from b200kit.report.charts.tuning_charts import Heat, heats, sweeps
from b200kit.report.content import conditions, facts
from b200kit.report.content.alike import Alike, good_alike, not_good_alike, whole
from b200kit.report.content.baseline_and_diagnosis import (
    diagnosis_of,
    history_of,
)
from b200kit.report.content.findings import each_once, findings_of, gate_line
from b200kit.report.content.first import first_of
from b200kit.report.content.fleet import HEAD, fleet
from b200kit.report.content.gpus_under_load import gpus_during
from b200kit.report.content.graph import Topology
from b200kit.report.content.latency import METRICS, latency_of
from b200kit.report.content.machine import machine_of
from b200kit.report.content.other_readings import not_applicable, reported
from b200kit.report.content.p2p_matrix import matrix_of
from b200kit.report.content.proof import freshness
from b200kit.report.content.reprovision import reprovisioned_of
from b200kit.report.content.run_conditions import run_conditions_of
from b200kit.report.content.serving import gpus_of_replica
from b200kit.report.content.tuning import Tuning, all_cells, all_knees, tuning_of
from b200kit.report.document import Pairs, clean, counted, duration, items, number, read, show
from b200kit.report.html.figure import Figure, Table
from b200kit.report.html.machine_picture import diagram
from b200kit.report.html.svg import el
from b200kit.report.html.templates import template
from b200kit.report.names import hostlist
from b200kit.report.outcome import (
    exit_code,
    failed_hosts,
    outcome_of,
    ranked,
    stand_in,
    totals,
)
from b200kit.report.shown import shown


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage as text; `share` is its part of the host's time in percent, for its bar."""

    name: str
    status: str
    tone: str
    took: str
    share: float
    detail: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The section "tuning": what was found, its maps, its sweeps, every cell."""

    of: Tuning
    heats: list[Heat]
    sweeps: list[Figure]
    tables: tuple[Table, ...]


def render(record: object, pages: Mapping[str, str] | None = None) -> str:
    """Return the page of a run record; every key of the record is optional.

    Nodes with pages of their own, by file, are linked and not in it.
    """
    return shown(record, lambda found: _render(found, pages or {}))


def _render(record: object, pages: Mapping[str, str]) -> str:
    hosts = ranked(record)
    chosen = [] if pages else whole(hosts)
    anchors = {name: f"host-{place}" for place, name in enumerate(chosen)}
    links = dict(pages) or {name: f"#{anchor}" for name, anchor in anchors.items()}
    folded = len(hosts) > len(chosen)
    page = template("report/report.html.j2").render(
        run=show(read(record, "run")),
        about=_about(record),
        totals=totals(record),
        freshness=freshness(record),
        exit_code=exit_code(record),
        stand_in=stand_in(record),
        first=[(alike, _linked(alike, links)) for alike in not_good_alike(hosts)],
        good=list(good_alike(hosts)) if folded else [],
        folded=folded,
        failed=hostlist(failed_hosts(record)),
        hosts=[_page(anchor, name, hosts[name]) for name, anchor in anchors.items()],
        metrics=list(METRICS.values()),
        signs=_signs(),
        fleet=fleet(record),
        fleet_head=HEAD,
    )
    return page.strip() + "\n"


def _linked(alike: Alike, links: Mapping[str, str]) -> list[tuple[str, str]]:
    """The members that are shown somewhere: name and address, the first for all."""
    return [(clean(name), links[name]) for name in alike.members if name in links]


def _about(record: object) -> Pairs:
    argv = " ".join(map(show, items(read(record, "argv")))) or show(read(record, "entry"))
    controller = read(record, "controller")
    pairs = [
        ("command", argv),
        ("started", show(read(record, "started_at"))),
        ("ended", show(read(record, "ended_at"))),
    ]
    if isinstance(controller, dict):
        return pairs + [(f"controller {clean(str(k))}", show(v)) for k, v in controller.items()]
    return [*pairs, ("controller", show(controller))]


def _page(anchor: str, name: str, host: object) -> dict[str, object]:
    """Return everything the page says of one host; texts are plain, pictures are SVG made here."""
    machine, latency, smoke = machine_of(host), latency_of(host), read(host, "smoke")
    return {
        "anchor": anchor,
        "name": clean(name),
        "outcome": outcome_of(host),
        "first": first_of(host),
        "done": _done(host),
        "gate": gate_line(read(host, "verdict")),
        "facts": _facts(host, machine.graph),
        "picture": diagram(machine),
        "why_no_picture": clean(machine.graph.why),
        "matrix": matrix_of(host),
        "findings": findings_of(read(host, "verdict")),
        "open": each_once(read(host, "verdict")),
        "versions": facts.versions(host),
        "reported": reported(host) if facts.observed(host) else [],
        "not_applicable": not_applicable(read(host, "verdict")),
        "stages": list(_stages(host)),
        "layout": list(_layout(host)),
        "latency": latency,
        "distributions": distributions(smoke, stand_in=latency.stand_in),
        "over_time": over_time(smoke, stand_in=latency.stand_in),
        "conditions": conditions.rows(smoke),
        "instruments": conditions.instruments(smoke),
        "gpus_during": gpus_during(smoke),
        "paths": conditions.paths(smoke),
        "history": history_of(host),
        "timeline": timeline_of(read(host, "record")),
        "diagnosis": diagnosis_of(host),
        "run_conditions": run_conditions_of(host),
        "tuned": _tuned(tuning_of(host)),
        "reprovisioned": reprovisioned_of(host),
    }


def _said(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def _facts(host: object, graph: Topology) -> Pairs:
    if not facts.observed(host):
        return [("node", facts.NO_STATE)]
    return [
        ("GPUs", facts.gpus_line(host, graph)),
        *([("power", cap)] if (cap := facts.power_line(host)) else []),
        ("NVLink", facts.links_line(graph)),
        ("fabric", facts.fabric_line(graph)),
        ("GPUs by NUMA node", facts.numa_short(graph)),
        ("observed", show(read(host, "state", "taken_at"))),
    ]


def _done(host: object) -> str:
    spans = [number(read(stage, "seconds")) for stage in items(read(host, "stages"))]
    total = sum(span for span in spans if span is not None)
    parts = [
        counted(read(host, key), key.removesuffix("s"))
        for key in ("changes", "commands")
        if number(read(host, key)) is not None
    ]
    return ", ".join([*parts, *([duration(total)] if total else [])])


def _stages(host: object) -> Iterator[Stage]:
    entries = items(read(host, "stages"))
    longest = max((number(read(entry, "seconds")) or 0.0 for entry in entries), default=0.0)
    tones = {"ok": "idle", "changed": "good", "failed": "bad", "skipped": "idle"}
    for entry in entries:
        seconds, status = number(read(entry, "seconds")), show(read(entry, "status"))
        yield Stage(
            name=show(read(entry, "name")),
            status=status,
            tone=tones.get(status, "unknown"),
            took=show(read(entry, "seconds")) if seconds is None else duration(seconds),
            share=100 * max(seconds or 0.0, 0.0) / longest if longest > 0 else 0.0,
            detail=_said(read(entry, "detail")),
            changes=tuple(map(show, items(read(entry, "changes")))),
        )


def _layout(host: object) -> Iterator[list[str]]:
    for row in items(read(host, "layout")):
        nodes = ", ".join(map(show, items(read(row, "numa_nodes")))) or "none"
        ends = [nodes, show(read(row, "cpus")), show(read(row, "port"))]
        yield [show(read(row, "replica")), gpus_of_replica(row, ", "), *ends]


def _tuned(found: Tuning) -> Tuned | None:
    if found.why:
        return None
    return Tuned(found, heats(found), sweeps(found), (all_knees(found), all_cells(found)))


def _signs() -> dict[str, str]:
    """Return each marker as a small picture for the legends."""
    return {
        shape: el("svg", marks(shape, [(8, 6)], 3.6), viewBox="0 0 16 12", class_="sign",
                  aria_hidden="true")
        for shape in SHAPES
    }  # fmt: skip
