"""Records of measured runs for a terminal: all nodes, all runs, one run, a comparison."""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.records.comparison import AgainstRecord
from b200kit.records.conditions import fields, value_of
from b200kit.records.entries import Acceptance, MeasuredRun, Record, counts
from b200kit.records.statistics import METRICS
from b200kit.report.content.latency import percentiles
from b200kit.report.content.records import HEAD, TITLES, diagnosis_of, history, history_of
from b200kit.report.document import Unmeasured, mapping, milliseconds, read, show
from b200kit.report.terminal.lines import Lines, shorten

_RIGHT = frozenset({2, 3, 4, 5, 6})


def fleet(page: Lines, found: Mapping[str, Record]) -> None:
    """Each node's newest run on a line."""
    rows = [["node", "newest run", "runs", *METRICS.values(), "baseline"]]
    for name, known in found.items():
        last = known.runs[-1] if known.runs else None
        when = _minute(last.at) if last else "none"
        by = ["none accepted", *(f"{one.at[:10]} {one.by}" for one in known.of(Acceptance))]
        rows.append([name, when, str(len(known.runs)), *_medians(last), by[-1]])
    page.table(rows, left=0, right=_RIGHT)


def runs(page: Lines, known: Record) -> None:
    """Every run on a line, oldest first; a mark for what a run's figures do not count for."""
    acceptances = known.of(Acceptance)
    accepted = acceptances[-1].runs if acceptances else ()
    rows = [["run", "taken", "n", *METRICS.values(), ""]]
    for run in known.runs:
        mark = "baseline" if run.id in accepted else ""
        note = "not counted" if counts(run) else mark
        if value_of(run.conditions, "load.stand_in") is True:
            note = f"STAND-IN ENGINE  {note}".rstrip()
        n = str(run.smoke.main.completed)
        rows.append([run.id, _minute(run.at), n, *_medians(run), note])
    page.table(rows, left=0, right=_RIGHT)
    page.hang("", text="median of each run in ms")
    for run in known.runs:
        if why := counts(run):
            page.hang("", text=f"{run.id} is not counted: {why}")
    for entry in acceptances:
        by = f"accepted {entry.at[:10]} by {entry.by}: {entry.why}"
        page.hang("", text=f"{by} ({len(entry.runs)} runs)")


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _medians(run: MeasuredRun | None) -> list[str]:
    return [milliseconds(run.smoke.main.latency(m).p50_ms if run else None) for m in METRICS]


def one(page: Lines, run: MeasuredRun) -> None:
    """A run: its figures, then the run conditions by what its fields are for."""
    by = f"measured by deploy run {run.run}"
    page.hang("", text=f"run {run.id} of {run.node}, {run.at}, {by}")
    if counts(run):
        page.fact("not counted", counts(run))
    for metric, name in METRICS.items():
        cells = " / ".join(percentiles(run.smoke.main, metric))
        page.fact(name, f"{cells} ms (P50 / P95 / P99)")
    for role, title in TITLES.items():
        page.line(title)
        for field in (field for field in fields().values() if field.role is role):
            value = value_of(run.conditions, field.name)
            page.hang(f"  {field.words:<28}  ", text=show(value))


def comparison(page: Lines, name: str, compared: AgainstRecord) -> None:
    """A node's newest runs against its baseline: the outcome, the figures, what changed."""
    found = history(compared)
    page.hang(f"{name}  ", (f"{found.word or 'unmeasured':<10}", found.tone), "  ", text=found.why)
    page.facts(found.facts)
    if found.rows:
        page.table([HEAD, *found.rows], left=2, right=frozenset({1, 3, 4, 6, 7}))
    page.facts([("changed", text) for text in found.changes])


def block(page: Lines, host: object) -> None:
    """A host's lines of a deploy: its newest runs against the record, and what is diagnosed."""
    if not isinstance(read(host, "record"), Unmeasured) or mapping(host).get("record"):
        found = history_of(host)
        page.fact("record", f"{found.word} {found.why}".strip())
        page.facts([("", text) for text in found.changes if found.slower])
    diagnosis = diagnosis_of(host)
    page.facts([("diagnosis", f"{shorten(s, 60)}: {text}") for s, text in diagnosis.fired])
    if diagnosis.unlooked:
        names = ", ".join(symptom for symptom, _ in diagnosis.unlooked)
        page.fact("diagnosis", f"not compared: {names}")
