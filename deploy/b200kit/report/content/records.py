"""The record in words: newest runs against the baseline, a diagnosis, and the run conditions.

Everything takes the documents that stand in a HostRecord, so that a stored run is shown again as it
was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from b200kit.records.conditions_fields import FIELDS, Role
from b200kit.records.groups import ASSUMED, DAYS
from b200kit.records.metrics import METRICS, NAMES, SHARES, change
from b200kit.report.document import (
    Pairs,
    Unmeasured,
    items,
    mapping,
    milliseconds,
    number,
    read,
    show,
    unread,
)

WORDS = {"same": "same", "different": "DIFFERENT", "unclear": "CANNOT SAY"}
_TONES = {"same": "good", "different": "bad", "unclear": "unknown"}
HEAD = ["ms", "accepted", "from-to", "CV", "newer", "from-to", "CV", "change", "90 % interval"]
TITLES = {
    Role.IDENTITY: "the run",
    Role.LOAD: "load: the same, or not comparable",
    Role.SYSTEM: "system",
    Role.CONDITION: "conditions",
}
_NOTHING = "unmeasured: no result to look at"
_ROWS = {
    "missed": "missed",
    "late": "late",
    **{f"p{q}_{m}": f"{n} {q}" for q in (95, 99) for m, n in METRICS.items()},
}


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """A node's newest runs against its record, as text."""

    word: str
    tone: str
    why: str
    facts: Pairs
    rows: list[list[str]]
    changes: list[str]
    slower: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What fired, what could not be looked at, and how many were looked at and are not so."""

    why: str
    fired: Pairs
    unlooked: Pairs
    cleared: int


def history(document: object) -> RecordHistory:
    """A comparison; a document without an outcome is unmeasured.

    A regression is reported even where nothing differs between the run conditions.
    """
    found = read(document, "outcome")
    outcome = "" if isinstance(found, Unmeasured) else show(found)
    slower = bool(items(read(document, "slower")))
    changed = [show(read(entry, "text")) for entry in items(read(document, "changed"))]
    if not changed and slower:
        changed = ["nothing that the run conditions show"]
    return RecordHistory(
        word=WORDS.get(outcome, ""),
        tone=_TONES.get(outcome, "unknown"),
        why=str(found) if isinstance(found, Unmeasured) else show(read(document, "why")),
        facts=list(_facts(document)),
        rows=[_row(metric) for metric in items(read(document, "metrics"))],
        changes=changed,
        slower=slower,
    )


def _facts(document: object) -> Iterator[tuple[str, str]]:
    """Who accepted the baseline and what was compared."""
    if accepted := mapping(read(document, "baseline")):
        yield "baseline", f"{accepted.get('at')} by {accepted.get('by')}: {accepted.get('why')}"
    for name, key in (("accepted", "before"), ("newer", "after")):
        if text := _span(read(document, "runs", key)):
            yield name, text
    if blind := ", ".join(map(show, items(read(document, "uncompared")))):
        yield "not compared", f"{blind} (unmeasured on one side)"
    largest = []
    for metric, pair in mapping(read(document, "largest")).items():
        ends = [milliseconds(end) for end in map(number, items(pair)) if end is not None]
        largest.append(f"{METRICS.get(metric, metric)} {' -> '.join(ends)}")
    if largest:
        yield "largest", f"{'; '.join(largest)} ms (median of the runs' maxima)"
    for metric, hint in mapping(read(document, "hint")).items():
        if read(hint, "inside") is False:
            value, low, high = (number(read(hint, key)) or 0.0 for key in ("value", "low", "high"))
            predicted = f"the baseline predicts {milliseconds(low)} to {milliseconds(high)} (99 %)"
            name = METRICS.get(metric, metric)
            yield "newest run", f"{name} {milliseconds(value)} ms, {predicted}"


def _span(span: object) -> str:
    count, days = number(read(span, "count")) or 0, number(read(span, "days"))
    if not count:
        return ""
    first, last = (show(read(span, key))[:16].replace("T", " ") for key in ("first", "last"))
    few = days is not None and days < DAYS
    alone = f"; that days differ by {ASSUMED:.0%} is assumed" if few else ""
    runs = f"{count:g} run{'' if count == 1 else 's'}"
    return f"{runs}, {first} to {last}, {days or 0:g} day{'' if days == 1 else 's'}{alone}"


def _row(metric: object) -> list[str]:
    """Both medians of run medians, their spread, the change."""
    name = show(read(metric, "metric"))
    ends = [number(end) for end in items(read(metric, "interval"))]
    interval = " to ".join(change(name, end) for end in ends if end is not None)
    before, after = (_group(read(metric, key), name) for key in ("before", "after"))
    ratio = number(read(metric, "ratio"))
    changed = "-" if ratio is None else change(name, ratio)
    row = [_ROWS.get(name, NAMES.get(name, "?")), *before, *after, changed]
    # One unit for both ends: the table is as wide as a terminal.
    return [*row, interval.replace(" % to", " to").replace(" pp to", " to")]


def _group(group: object, name: str) -> list[str]:
    low, high, cv, middle = (number(read(group, key)) for key in ("low", "high", "cv", "median"))
    if low is None or high is None or cv is None or middle is None:
        return [show(read(group, "median")), "-", "-"]
    if name in SHARES:
        return [f"{middle:.1%}", f"{low:.1%}-{high:.1%}", "-"]
    apart = number(read(group, "apart")) or 0
    note = " in 2" if items(read(group, "modes")) else f" ({apart:g})" if apart else ""
    spread = f"{milliseconds(low)}-{milliseconds(high)}{note}"
    return [milliseconds(middle), spread, f"{cv * 100:.1f} %"]


def history_of(host: object) -> RecordHistory:
    """The section "against the record" of a HostRecord."""
    found = history(read(host, "record"))
    return found if "record" in mapping(host) else replace(found, why=_NOTHING)


def diagnosis_of(host: object) -> Diagnosis:
    """The section "diagnosis" of a HostRecord."""
    document = read(host, "diagnosis")
    fired = []
    for entry in items(read(document, "fired")):
        evidence = "; ".join(map(show, items(read(entry, "evidence"))))
        symptom, because, todo = (show(read(entry, key)) for key in ("symptom", "cause", "change"))
        fired.append((symptom, f"{evidence}. Cause: {because}. -> {todo}"))
    unlooked = [
        (show(read(entry, "symptom")), show(read(entry, "why")))
        for entry in items(read(document, "unlooked"))
    ]
    why = _NOTHING if isinstance(document, Unmeasured) else ""
    return Diagnosis(why, fired, unlooked, len(items(read(document, "cleared"))))


@dataclass(frozen=True, slots=True)
class RunConditions:
    """All that decided the figures of a run, by role; `why` is set where nothing is known."""

    why: str = ""
    summary: str = ""
    groups: tuple[tuple[str, Pairs], ...] = ()


def run_conditions_of(host: object) -> RunConditions:
    """Return the run conditions in the record document of a HostRecord."""
    document = read(host, "record", "conditions")
    if not mapping(read(document, "fields")):
        return RunConditions(unread(document, "it has no fields"))
    found = {field: read(document, "fields", field.name) for field in FIELDS}
    groups = tuple(
        (
            title,
            [(f.words, show(value)) for f, value in found.items() if f.role is role],
        )
        for role, title in TITLES.items()
    )
    blind = sum(isinstance(value, Unmeasured) for value in found.values())
    return RunConditions("", f"{len(FIELDS)} fields, {blind} of them unmeasured", groups)
