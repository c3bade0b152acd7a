"""Which runs of a record are compared with which, and the result in words. Pure.

The baseline is what a person accepted. The newer runs are the newest ones of the same load and the
same system, so that runs from before and after an upgrade are never taken for one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from b200kit.node.lib.documents import unstructure
from b200kit.records import conditions
from b200kit.records.conditions_fields import Role
from b200kit.records.entries import Acceptance, Record, RecordError, counts, measured, medians
from b200kit.records.entries import MeasuredRun as Run
from b200kit.records.groups import ASSUMED, DAYS, LEAST
from b200kit.records.metrics import METRICS, is_of_replica, of_replicas, words
from b200kit.records.statistics import (
    Comparison,
    ComparisonOutcome,
    compare,
    expected,
    slower,
)

SCHEMA = "b200kit/against-the-record/1"
NEWEST = 10
"""Newer runs that are compared; enough to find 10 % on days that differ by 3 % (simulated)."""
_NAMED = 4
"""Of the medians that are slower, the worst are named."""


def countable(runs: Sequence[Run]) -> list[Run]:
    """Runs whose figures may be compared, in their order."""
    return [run for run in runs if not counts(run)]


def alike(runs: Sequence[Run], like: Run, role: Role) -> list[Run]:
    """Runs that agree with one of them in a role's fields."""
    return [r for r in runs if conditions.same(r.conditions, like.conditions, role)]


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
    other = next(
        (r for r in runs if conditions.load_differences(runs[0].conditions, r.conditions)),
        None,
    )
    if other:
        change = conditions.load_differences(runs[0].conditions, other.conditions)[0]
        raise RecordError(f"runs {runs[0].id} and {other.id} are of another load: {change}")
    if len(runs) < LEAST:
        raise RecordError(f"{LEAST} runs make a baseline, there are {len(runs)}")
    return runs


def _named(record: Record, names: Sequence[str]) -> list[Run]:
    found: list[Run] = []
    for identity in dict.fromkeys(names):
        run = record.run(identity)
        if run is None:
            raise RecordError(f"{identity} is not the id of one run")
        found.append(run)
    return found


def against(record: Record, most: int = NEWEST, other: Record | None = None) -> dict[str, Any]:
    """The record's newest runs against its accepted baseline, or against *other*'s newest.

    `outcome` is same, different or unclear, and `why` says it in a line; `changed` are the
    differences of their conditions, `hint` the newest run alone against what the baseline predicts.
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


def compare_to_baseline(record: Record, run: Run) -> dict[str, Any]:
    """One new run against the accepted baseline of its load: usual, slower, none or unknown.

    Slower is a median, or a replica's own against the others', that lies above what the baseline's
    runs let expect (chance: `false_red`) and more than MARGIN above theirs; `none` that there is no
    baseline, `unknown` that it cannot be compared with the one there is. `why` says it in a line.
    """
    accepted, before = baseline(record, run)
    if not accepted:
        return _result("none", _nothing_before(record, [run], None))
    own, known = measured(run), [measured(r) for r in before]
    if len(before) < LEAST:
        return _result("unknown", f"only {len(before)} runs of the baseline are left", accepted)
    missing = [n for m, n in METRICS.items() if not own.has(m) and all(k.has(m) for k in known)]
    if missing:
        return _result("unknown", f"it has no {', '.join(missing)}, the baseline has", accepted)
    paths = of_replicas(own)
    others = [name for name in of_replicas(known[-1]) if name not in paths]
    groups = [names for names in (tuple(METRICS), paths) if names]
    found = {m: one for names in groups for m, one in expected(known, own, names).items()}
    worse = {m: one for names in groups for m, one in slower(known, own, names).items()}
    by = _accepted_by(accepted, before)
    if not set(paths) <= set(found) or others:
        by += "; not every replica is in both, accept runs of this layout"
    if not worse:
        return _result("usual", by, accepted, found)
    changes = conditions.differences(before[-1].conditions, run.conditions)
    worst = sorted(worse.items(), key=lambda each: each[1]["usual"] / each[1]["value"])[:_NAMED]
    why = "; ".join(_slower_text(m, one) for m, one in worst)
    why += f"; and {len(worse) - _NAMED} more" if len(worse) > _NAMED else ""
    cause = f"; changed since: {changes[0]}" if changes else ""
    return _result("slower", f"{why}; {by}{cause}", accepted, found)


def no_baseline(why: str, outcome: str = "none") -> dict[str, Any]:
    """A run that is compared with no baseline, and why."""
    return _result(outcome, why)


def _result(
    outcome: str,
    why: str,
    accepted: Acceptance | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    own = {"outcome": outcome, "why": why, "metrics": dict(metrics or {})}
    return {**own, "baseline": _by_whom(accepted)}


def _by_whom(accepted: Acceptance | None) -> dict[str, str] | None:
    keys = ("at", "by", "why", "id")
    return {key: getattr(accepted, key) for key in keys} if accepted else None


def _slower_text(metric: str, found: Mapping[str, Any]) -> str:
    usual = f"{found['low']:.3g} to {found['high']:.3g}"
    unit = " times the other replicas'" if is_of_replica(metric) else " ms"
    return f"{words(metric)} {found['value']:.3g}{unit}, the baseline {usual}"


def _accepted_by(accepted: Acceptance, runs: Sequence[Run]) -> str:
    return f"baseline of {accepted.at[:10]} by {accepted.by}, {days(runs)}"


def days(runs: Sequence[Run]) -> str:
    """On how many days runs were taken, and what is assumed where those are few."""
    found = len({run.at[:10] for run in runs})
    text = f"{len(runs)} runs of {found} day{'s'[: found > 1]}"
    return text if found >= DAYS else f"{text}: that days differ by {ASSUMED:.0%} is assumed"


def _nothing_before(record: Record, newer: Sequence[Run], other: Record | None) -> str:
    if other is not None:
        return "the other node has no run under the same load"
    if not (accepted := record.of(Acceptance)):
        return "no baseline is accepted; b200 record accept"
    last = accepted[-1]
    run = next((run for run in record.runs if run.id in last.runs), None)
    changes = (
        conditions.load_differences(run.conditions, newer[-1].conditions) if run and newer else []
    )
    change = f" ({changes[0]})" if changes else ""
    return f"the accepted baseline is of another load{change}; accept runs of this one"


def _unclear(
    why: str, newer: Sequence[Run] = (), accepted: Acceptance | None = None
) -> dict[str, Any]:
    return _document(Comparison(ComparisonOutcome.UNCLEAR, why), (), newer, accepted)


def _document(
    found: Comparison,
    before: Sequence[Run],
    newer: Sequence[Run],
    accepted: Acceptance | None,
) -> dict[str, Any]:
    ends = (before[-1].conditions, newer[-1].conditions) if before and newer else None
    changes = conditions.differences(*ends) if ends else []
    return {
        "schema": SCHEMA,
        **unstructure(found),
        "baseline": _by_whom(accepted),
        "runs": {"before": _span(before), "after": _span(newer)},
        "changed": [{"text": str(change), "role": change.role.value} for change in changes],
        "uncompared": conditions.uncompared(*ends) if ends else [],
        "hint": expected([measured(r) for r in before], measured(newer[-1])) if ends else {},
    }


def _span(runs: Sequence[Run]) -> dict[str, Any]:
    """How many runs, from when to when, on how many days: runs of one hour share its conditions."""
    days = {run.at[:10] for run in runs}
    ends = {"first": runs[0].at, "last": runs[-1].at} if runs else {}
    return {"count": len(runs), "days": len(days), **ends, "ids": [run.id for run in runs]}


def by_tensor_parallel(runs: Sequence[Run], like: Run) -> list[dict[str, Any]]:
    """Median TPOT at each TP up to *like*'s under the same load, smallest first."""
    groups: dict[int, list[float]] = {}
    most = conditions.value_of(like.conditions, "serving.tp")
    for run in alike(countable(runs), like, Role.LOAD):
        tp, tpot = conditions.value_of(run.conditions, "serving.tp"), medians(run).get("tpot")
        if isinstance(tp, int) and isinstance(most, int) and tp <= most and tpot:
            groups.setdefault(tp, []).append(tpot)
    middle = {tp: sorted(found)[len(found) // 2] for tp, found in groups.items()}
    return [{"tp": tp, "tpot_ms": middle[tp], "runs": len(groups[tp])} for tp in sorted(groups)]
