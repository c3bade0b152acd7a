"""The page of a sealed run that a person signs: what was run on which machine, and what came of it.

Pure. It is made of the report's building blocks; what is printed of it is all that it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from statistics import median

from b200kit.acceptance.figures import MeasuredMetric, measured
from b200kit.acceptance.seal import SealedRun
from b200kit.node.state.acceptance import AcceptancePlan, Floor, SegmentLine
from b200kit.node.state.verdict import Status
from b200kit.report.content.verdict import TONES, each_once
from b200kit.report.document import Pairs, duration
from b200kit.report.html.figure import Table
from b200kit.report.html.templates import template

_LABELS = {
    "fit": ("ACCEPTED", "good"), "unfit": ("NOT ACCEPTED", "bad"),
    "unmeasured": ("UNKNOWN", "unknown"),
}  # fmt: skip


def page(run: SealedRun) -> str:
    """The page."""
    label, tone = _LABELS[run.verdict.fit]
    passed = [one for one in run.verdict.findings if one.status is Status.PASS]
    text = template("report/acceptance.html.j2").render(
        run=run,
        label=label,
        tone=tone,
        about=_about(run),
        open=each_once(run.verdict),
        passed=[(TONES[one.status], one) for one in passed],
        figures=_figures(run.plan, run.lines),
        segments=_segments(run.lines),
        left_out=list(_left_out(run)),
        tools=[(name, f"{t.version}, sha256 {t.sha256}") for name, t in run.plan.tools.items()],
    )
    return text.strip() + "\n"


def _about(run: SealedRun) -> Pairs:
    plan, machine = run.plan, run.plan.machine
    took = sum(line.seconds for line in run.lines)
    return [
        ("run", plan.id),
        ("level", plan.level),
        ("began", plan.started_at),
        ("tests took", duration(took)),
        ("machine", machine.product or "its firmware gives no name"),
        ("serial number", machine.serial or "its firmware gives none"),
        *((f"GPU {n}", f"serial number {one}") for n, one in enumerate(machine.gpu_serials)),
        ("driver", machine.driver_version),
        ("kernel", machine.kernel),
        ("signed by host key", run.signed_by),
        ("SHA-256 of SHA256SUMS", run.sums),
    ]


def _figures(plan: AcceptancePlan, lines: tuple[SegmentLine, ...]) -> Table:
    """A row a metric: the figures of all subjects, and what they are held to."""
    head = ("figure", "of", "lowest", "median", "highest", "unit", "held to", "where that is from")
    rows = [_row(one, plan.floors) for one in measured(lines)]
    return Table(head, tuple(rows), f"{len(rows)} figures")


def _row(one: MeasuredMetric, floors: Mapping[str, Floor]) -> tuple[str, ...]:
    values, subjects = one.by_subject.values(), [*one.by_subject]
    of = subjects[0] if len(subjects) == 1 else f"{len(subjects)}"
    spread = (min(values), median(values), max(values))
    floor = floors.get(one.metric)
    held = f"{floor.holds} {floor.value:g} {floor.unit}" if floor else "nothing"
    source = f"{floor.kind}, {floor.date}: {floor.source}" if floor else ""
    return (one.metric, of, *map(_figure, spread), one.unit, held, source)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"


def _segments(lines: tuple[SegmentLine, ...]) -> Table:
    """A row a segment; one that was run again stands there twice."""
    head = ("test", "segment", "attempt", "began", "took", "outcome", "why")
    rows = [
        (line.test, str(line.segment), str(line.attempt), line.began_at, duration(line.seconds),
         line.outcome, line.why)
        for line in lines
    ]  # fmt: skip
    return Table(head, tuple(rows), f"{len(rows)} segments")


def _left_out(run: SealedRun) -> Iterator[tuple[str, str]]:
    """What was not measured, each with what brings it, or why there is no such thing."""
    plan = run.plan
    yield from ((tool, f"there is no {tool}: {how}") for tool, how in plan.missing.items())
    yield from ((test, f"does not apply: {why}") for test, why in plan.not_applicable.items())
    unread = (one for one in run.verdict.findings if one.status is Status.UNMEASURED)
    for check, found in groupby(unread, key=lambda one: one.check):
        yield check, "; ".join(dict.fromkeys(one.summary for one in found))
