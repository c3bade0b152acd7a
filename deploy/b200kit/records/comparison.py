"""Which runs of a record are compared with which, and the result in words. Pure.

The baseline is what a person accepted. The newer runs are the newest ones of the same load and the
same system, so that runs from before and after an upgrade are never taken for one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from b200kit.node.client.smoke_result import AcceptedBy, BaselineComparison, Predicted
from b200kit.records import conditions
from b200kit.records.conditions import ConditionChange, Role, RunConditions
from b200kit.records.entries import Acceptance, Record, RecordError, counts, measured, medians
from b200kit.records.entries import MeasuredRun as Run
from b200kit.records.statistics import (
    ASSUMED,
    DAYS,
    LEAST,
    METRICS,
    Comparison,
    ComparisonOutcome,
    compare,
    expected,
    slower,
)

NO_BASELINE = f"no baseline is accepted: b200 record accept, after {LEAST} runs"
NEWEST = 10
"""Newer runs that are compared; enough to find 10 % on days that differ by 3 % (simulated)."""


@dataclass(frozen=True)
class RunSpan:
    """Runs that were compared: how many, on how many days, the first and the last, their ids."""

    count: int
    days: int
    first: str | None
    last: str | None
    ids: tuple[str, ...]


@dataclass(frozen=True)
class MedianAtTp:
    """The median TPOT at a tensor parallelism, over so many runs."""

    tp: int
    tpot_ms: float
    runs: int


@dataclass(frozen=True)
class ShownRun:
    """A run: its medians in ms, whether it is accepted, why it counts nowhere ("" where it counts).

    changes: what is different in its system from the run before.
    """

    id: str
    at: str
    medians: Mapping[str, float]
    baseline: bool
    not_counted: str
    changes: tuple[str, ...]


@dataclass(frozen=True)
class RunTimeline:
    """The runs of the newest run's load, oldest first; omitted and other_load count the others."""

    runs: tuple[ShownRun, ...] = ()
    omitted: int = 0
    other_load: int = 0
    stand_in: bool = False


@dataclass(frozen=True, kw_only=True)
class AgainstRecord(Comparison):
    """A node's newest runs against its baseline; timeline to by_tp are there at the end of a run.

    changed: what differs in their conditions; uncompared: what may, unseen. hint: the newest run
    alone against what the baseline predicts. conditions: of the newest run.
    """

    schema: ClassVar[str] = "b200kit/against-the-record/2"

    baseline: AcceptedBy | None
    accepted: RunSpan
    newer: RunSpan
    changed: tuple[str, ...]
    uncompared: tuple[str, ...]
    hint: Mapping[str, Predicted]
    timeline: RunTimeline = RunTimeline()
    conditions: RunConditions | None = None
    by_tp: tuple[MedianAtTp, ...] = ()


def countable(runs: Sequence[Run]) -> list[Run]:
    """Runs whose figures may be compared, in their order."""
    return [run for run in runs if not counts(run)]


def alike(runs: Sequence[Run], like: Run, role: Role) -> list[Run]:
    """Runs that agree with one of them in a role's fields."""
    return [r for r in runs if not conditions.differences(r.conditions, like.conditions, (role,))]


def latest(record: Record, most: int = NEWEST) -> list[Run]:
    """The newest countable runs of one load and one system, oldest first; none in an empty one."""
    runs = countable(record.runs)
    if not runs:
        return []
    same = alike(alike(runs, runs[-1], Role.LOAD), runs[-1], Role.SYSTEM)
    return same[-most:]


def baseline(record: Record, like: Run) -> tuple[Acceptance | None, list[Run]]:
    """The newest acceptance of runs under the same load as *like*, and those runs."""
    for accepted in reversed(record.of(Acceptance)):
        chosen = [run for run in record.runs if run.id in accepted.runs]
        runs = alike(countable(chosen), like, Role.LOAD)
        if runs:
            return accepted, runs
    return None, []


def acceptable(record: Record, names: Sequence[str] = (), most: int = NEWEST) -> list[Run]:
    """The runs to accept: those named, else the newest of one system.

    Raises RecordError for a name that is no run's, for runs that do not belong together, and for
    too few of them.
    """
    runs = _named(record, names) if names else latest(record, most)
    for run in runs:
        if counts(run):
            raise RecordError(f"run {run.id} cannot be a baseline: {counts(run)}")
    for other in runs:
        for change in _load_changes(runs[0], other):
            raise RecordError(f"runs {runs[0].id} and {other.id} are of another load: {change}")
    if len(runs) < LEAST:
        raise RecordError(f"{LEAST} runs make a baseline, there are {len(runs)}")
    return runs


def _load_changes(one: Run, other: Run) -> list[ConditionChange]:
    """Why they cannot be compared; none where they can."""
    return conditions.differences(one.conditions, other.conditions, (Role.LOAD,))


def _named(record: Record, names: Sequence[str]) -> list[Run]:
    found: list[Run] = []
    for identity in dict.fromkeys(names):
        run = record.run(identity)
        if run is None:
            raise RecordError(f"{identity} is not the id of one run")
        found.append(run)
    return found


def against(record: Record, most: int = NEWEST, other: Record | None = None) -> AgainstRecord:
    """The record's newest runs against its accepted baseline, or against *other*'s newest.

    Where nothing can be compared it is unclear, and `why` says so.
    """
    newer = latest(record, most)
    if not newer:
        return _unclear("no run that counts is in the record")
    accepted, before = baseline(record, newer[-1])
    if other is not None:
        accepted, before = None, alike(latest(other, most), newer[-1], Role.LOAD)
    # What was accepted is not compared with itself.
    known = {run.id for run in before}
    newer = [run for run in newer if run.id not in known]
    if not before:
        return _unclear(_nothing_before(record, newer, other), newer)
    if not newer:
        return _unclear("no run since the baseline was accepted", accepted=accepted)
    found = compare([measured(r) for r in before], [measured(r) for r in newer])
    return _document(found, before, newer, accepted)


def compare_to_baseline(record: Record, run: Run) -> BaselineComparison:
    """One new run against the accepted baseline of its load: usual, slower, none or unknown.

    Slower is a median that lies above what the baseline's runs let expect and more than MARGIN
    above theirs; `none` that there is no baseline, `unknown` that it cannot be compared with the
    one there is. `why` says it in a line.
    """
    accepted, before = baseline(record, run)
    if not accepted:
        return BaselineComparison("none", _nothing_before(record, [run], None))
    own, known = measured(run), [measured(r) for r in before]
    whose = _by_whom(accepted)
    if len(before) < LEAST:
        few = f"only {len(before)} runs of the baseline are left"
        return BaselineComparison("unknown", few, {}, whose)
    missing = [n for m, n in METRICS.items() if not own.has(m) and all(k.has(m) for k in known)]
    if missing:
        none = f"it has no {', '.join(missing)}, the baseline has"
        return BaselineComparison("unknown", none, {}, whose)
    found, worse = expected(known, own), slower(known, own)
    by = f"baseline of {accepted.at[:10]} by {accepted.by}, {days(before)}"
    if not worse:
        return BaselineComparison("usual", by, found, whose)
    changes = conditions.differences(before[-1].conditions, run.conditions)
    worst = sorted(worse.items(), key=lambda each: each[1].usual / each[1].value)
    why = "; ".join(
        f"{METRICS[m]} {one.value:.3g} ms, the baseline {one.low:.3g} to {one.high:.3g}"
        for m, one in worst
    )
    cause = f"; changed since: {changes[0]}" if changes else ""
    return BaselineComparison("slower", f"{why}; {by}{cause}", found, whose)


def _by_whom(accepted: Acceptance | None) -> AcceptedBy | None:
    if accepted is None:
        return None
    return AcceptedBy(accepted.at, accepted.by, accepted.why, accepted.id)


def days(runs: Sequence[Run]) -> str:
    """On how many days runs were taken, and what is assumed where those are few."""
    found = len({run.at[:10] for run in runs})
    text = f"{len(runs)} run{'s'[: len(runs) != 1]} of {found} day{'s'[: found > 1]}"
    return text if found >= DAYS else f"{text}: that days differ by {ASSUMED:.0%} is assumed"


def _nothing_before(record: Record, newer: Sequence[Run], other: Record | None) -> str:
    if other is not None:
        return "the other node has no run under the same load"
    if not (accepted := record.of(Acceptance)):
        return NO_BASELINE
    last = accepted[-1]
    run = next((run for run in record.runs if run.id in last.runs), None)
    changes = _load_changes(run, newer[-1]) if run and newer else []
    change = f" ({changes[0]})" if changes else ""
    return f"the accepted baseline is of another load{change}; accept runs of this one"


def _unclear(
    why: str, newer: Sequence[Run] = (), accepted: Acceptance | None = None
) -> AgainstRecord:
    return _document(Comparison(ComparisonOutcome.UNCLEAR, why), (), newer, accepted)


def _document(
    found: Comparison, before: Sequence[Run], newer: Sequence[Run], accepted: Acceptance | None
) -> AgainstRecord:
    ends = (before[-1].conditions, newer[-1].conditions) if before and newer else None
    changes = conditions.differences(*ends) if ends else []
    return AgainstRecord(
        **vars(found),
        baseline=_by_whom(accepted),
        accepted=_span(before),
        newer=_span(newer),
        changed=tuple(map(str, changes)),
        uncompared=tuple(conditions.uncompared(*ends)) if ends else (),
        hint=expected([measured(r) for r in before], measured(newer[-1])) if ends else {},
    )


def _span(runs: Sequence[Run]) -> RunSpan:
    """How many runs, from when to when, on how many days: runs of one hour share its conditions."""
    days = {run.at[:10] for run in runs}
    first, last = (runs[0].at, runs[-1].at) if runs else (None, None)
    return RunSpan(len(runs), len(days), first, last, tuple(run.id for run in runs))


def by_tensor_parallel(runs: Sequence[Run], like: Run) -> tuple[MedianAtTp, ...]:
    """Median TPOT at each TP up to *like*'s under the same load, smallest first."""
    groups: dict[int, list[float]] = {}
    most = conditions.value_of(like.conditions, "serving.tp")
    for run in alike(countable(runs), like, Role.LOAD):
        tp, tpot = conditions.value_of(run.conditions, "serving.tp"), medians(run).get("tpot")
        if isinstance(tp, int) and isinstance(most, int) and tp <= most and tpot:
            groups.setdefault(tp, []).append(tpot)
    middle = {tp: sorted(found)[len(found) // 2] for tp, found in groups.items()}
    return tuple(MedianAtTp(tp, middle[tp], len(groups[tp])) for tp in sorted(groups))


MOST = 60
"""Newest runs that are shown; the accepted ones stay whatever their age."""


def timeline(record: Record, most: int = MOST) -> RunTimeline:
    """The runs of a record, at most so many besides the accepted ones."""
    if not record.runs:
        return RunTimeline()
    newest = record.runs[-1]
    runs = alike(record.runs, newest, Role.LOAD)
    accepted = {run.id for run in baseline(record, newest)[1]}
    shown = [r for i, r in enumerate(runs) if i >= len(runs) - most or r.id in accepted]
    return RunTimeline(
        tuple(_one(run, before, accepted) for before, run in _pairs(shown)),
        len(runs) - len(shown),
        len(record.runs) - len(runs),
        conditions.value_of(newest.conditions, "load.stand_in") is True,
    )


def _pairs(runs: Sequence[Run]) -> list[tuple[Run | None, Run]]:
    return list(zip([None, *runs[:-1]], runs, strict=True))


def _one(run: Run, before: Run | None, accepted: set[str]) -> ShownRun:
    found = (
        conditions.differences(before.conditions, run.conditions, (Role.SYSTEM,)) if before else []
    )
    is_accepted, uncounted = run.id in accepted, counts(run)
    # What a starved client measured is its own.
    own = {} if uncounted else medians(run)
    return ShownRun(run.id, run.at, own, is_accepted, uncounted, tuple(map(str, found)))
