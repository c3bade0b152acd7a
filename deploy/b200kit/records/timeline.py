"""The runs of a record one after the other, for a picture: medians, baseline, what changed. Pure.

Only runs under the newest run's load stand beside each other; others cannot be compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from b200kit.records import conditions
from b200kit.records.comparison import alike, baseline
from b200kit.records.conditions_fields import Role
from b200kit.records.entries import MeasuredRun as Run
from b200kit.records.entries import Record, counts, medians

MOST = 60
"""Newest runs that are shown; the accepted ones stay whatever their age."""
_MOST_CHANGES = 12


def timeline(record: Record, most: int = MOST) -> dict[str, Any]:
    """The runs of the newest run's load, oldest first.

    A run: id, at, medians in ms by metric, `baseline` (accepted), `not_counted` (why, or ""),
    `changes` (texts: what is different in its system from the run before). `omitted` and
    `other_load` count runs that are not among them.
    """
    if not record.runs:
        return {"runs": [], "omitted": 0, "other_load": 0}
    newest = record.runs[-1]
    runs = alike(record.runs, newest, Role.LOAD)
    accepted = {run.id for run in baseline(record, newest)[1]}
    shown = [r for i, r in enumerate(runs) if i >= len(runs) - most or r.id in accepted]
    return {
        "runs": [_one(run, before, accepted) for before, run in _pairs(shown)],
        "omitted": len(runs) - len(shown),
        "other_load": len(record.runs) - len(runs),
        "stand_in": conditions.value_of(newest.conditions, "load.stand_in") is True,
    }


def _pairs(runs: Sequence[Run]) -> list[tuple[Run | None, Run]]:
    return list(zip([None, *runs[:-1]], runs, strict=True))


def _one(run: Run, before: Run | None, accepted: set[str]) -> dict[str, Any]:
    found = (
        conditions.differences(before.conditions, run.conditions, (Role.SYSTEM,)) if before else []
    )
    changes = [str(change) for change in found[:_MOST_CHANGES]]
    if len(found) > _MOST_CHANGES:
        changes.append(f"and {len(found) - _MOST_CHANGES} more")
    return {
        "id": run.id,
        "at": run.at,
        "medians": medians(run),
        "baseline": run.id in accepted,
        "not_counted": counts(run),
        "changes": changes,
    }
