"""The run as one HTML page that needs nothing else: no script, no network, no other file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from b200kit.node.state.verdict import Status
from b200kit.report.charts.baseline_timeline import timeline_of
from b200kit.report.charts.chart import SHAPES, marks
from b200kit.report.charts.latency_charts import distributions, over_time
from b200kit.report.charts.tuning_charts import sweeps
from b200kit.report.content import acceptance, facts, run
from b200kit.report.content import latency as measured
from b200kit.report.content.graph import Topology
from b200kit.report.content.latency import latency_of, smoke_of
from b200kit.report.content.nodes import (
    HEAD,
    NodeGroup,
    fleet,
    freshness,
    good_alike,
    not_good_alike,
    whole,
)
from b200kit.report.content.readings import reported
from b200kit.report.content.records import diagnosis_of, history_of, record_of, run_conditions_of
from b200kit.report.content.reprovision import reprovisioned_of
from b200kit.report.content.topology import MOST_GPUS, machine_of
from b200kit.report.content.tuning import ShownTuning, all_cells, all_knees, tuning_of
from b200kit.report.content.verdict import each_once, first_of, gate_line, verdict_of
from b200kit.report.document import Pairs, Unmeasured, clean, read, show
from b200kit.report.html.machine_picture import diagram
from b200kit.report.html.svg import el
from b200kit.report.html.templates import template
from b200kit.report.names import METRICS, hostlist, run_name
from b200kit.report.outcome import exit_code, failed_hosts, hosts_of, outcome_of, ranked, totals
from b200kit.report.shown import shown


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
        run=run_name(record),
        asked=run.asked_of(record),
        about=run.about(record),
        totals=totals(record),
        freshness=freshness(record),
        exit_code=exit_code(record),
        stand_in=any(map(measured.is_stand_in, hosts_of(record).values())),
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


def _linked(alike: NodeGroup, links: Mapping[str, str]) -> list[tuple[str, str]]:
    """The members that are shown somewhere: name and address, the first for all."""
    return [(clean(name), links[name]) for name in alike.members if name in links]


def _page(anchor: str, name: str, host: object) -> dict[str, object]:
    """Return everything the page says of one host; texts are plain, pictures are SVG made here."""
    machine, smoke, record = machine_of(host), smoke_of(host), record_of(host)
    passed = [f for f in verdict_of(host).findings if f.status is Status.PASS]
    gpus, pairs = machine.graph.gpus[:MOST_GPUS], machine.graph.pairs
    ends = range(len(gpus))
    return {
        "anchor": anchor,
        "name": clean(name),
        "outcome": outcome_of(host),
        "first": first_of(host),
        "done": run.done(host),
        "gate": gate_line(host),
        "facts": _facts(host, machine.graph),
        "picture": diagram(machine),
        "why_no_picture": clean(machine.graph.why),
        "gpus": [gpu.name for gpu in gpus],
        "pairs": [[pairs.get((a, b)) for b in ends] for a in ends if pairs],
        "passed": passed,
        "passed_names": ", ".join(
            f"{check} ({count} times)" if count > 1 else check
            for check, count in Counter(finding.check for finding in passed).items()
        ),
        "open": each_once(verdict_of(host)),
        "versions": facts.versions(host),
        "reported": reported(host) if facts.observed(host) else [],
        "not_applicable": list(verdict_of(host).not_applicable.items()),
        "stages": run.stages(host),
        "endpoint": facts.endpoint(host, clean(name)),
        "acceptance": acceptance.facts(host),
        "layout": facts.layout(host),
        "latency": latency_of(host, smoke),
        "distributions": distributions(smoke),
        "over_time": over_time(smoke),
        "conditions": measured.conditions(smoke),
        "instruments": measured.instruments(smoke),
        "gpus_during": measured.gpus_during(smoke),
        "paths": measured.paths(smoke),
        "history": history_of(host),
        "timeline": timeline_of(record),
        "diagnosis": diagnosis_of(host),
        "run_conditions": run_conditions_of(record),
        "tuned": _tuned(tuning_of(host)),
        "reprovisioned": reprovisioned_of(host),
    }


def _facts(host: object, graph: Topology) -> Pairs:
    if not facts.observed(host):
        return [("node", facts.NO_STATE)]
    return [
        *facts.machine(host, graph),
        ("GPUs by NUMA node", facts.numa_short(graph)),
        ("observed", show(read(host, "state", "taken_at"))),
    ]


def _tuned(found: Unmeasured | ShownTuning) -> dict[str, object] | None:
    """The section "tuning": what was found, its sweeps, every cell."""
    if isinstance(found, Unmeasured):
        return None
    tables = (all_knees(found), all_cells(found))
    return {"of": found, "sweeps": sweeps(found), "tables": tables}


def _signs() -> dict[str, str]:
    """Return each marker as a small picture for the legends."""
    return {
        shape: el("svg", marks(shape, [(8, 6)], 3.6), viewBox="0 0 16 12", class_="sign",
                  aria_hidden="true")
        for shape in SHAPES
    }  # fmt: skip
